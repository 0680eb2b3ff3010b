// Package checkout sells what is in the basket: its parcels.
package checkout

import "strings"

// ShowParcels gives all names in one line.
func ShowParcels(names []string) string {
	if len(names) == 0 {
		return "no parcels"
	}
	return strings.Join(names, ", ")
}
