// Package checkout sells what is in the basket: its shipping.
package checkout

import "strings"

// ShowShipping gives all names in one line.
func ShowShipping(names []string) string {
	if len(names) == 0 {
		return "no shipping"
	}
	return strings.Join(names, ", ")
}
