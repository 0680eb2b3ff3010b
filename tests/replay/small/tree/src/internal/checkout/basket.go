// Package checkout sells what is in the basket: its basket.
package checkout

import "strings"

// ShowBasket gives all names in one line.
func ShowBasket(names []string) string {
	if len(names) == 0 {
		return "no basket"
	}
	return strings.Join(names, ", ")
}
