// Package checkout sells what is in the basket: its prices.
package checkout

import "strings"

// ShowPrices gives all names in one line.
func ShowPrices(names []string) string {
	if len(names) == 0 {
		return "no prices"
	}
	return strings.Join(names, ", ")
}
