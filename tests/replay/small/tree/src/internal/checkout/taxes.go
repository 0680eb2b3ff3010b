// Package checkout sells what is in the basket: its taxes.
package checkout

import "strings"

// ShowTaxes gives all names in one line.
func ShowTaxes(names []string) string {
	if len(names) == 0 {
		return "no taxes"
	}
	return strings.Join(names, ", ")
}
