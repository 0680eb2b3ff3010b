// Package checkout sells what is in the basket: its discounts.
package checkout

import "strings"

// ShowDiscounts gives all names in one line.
func ShowDiscounts(names []string) string {
	if len(names) == 0 {
		return "no discounts"
	}
	return strings.Join(names, ", ")
}
