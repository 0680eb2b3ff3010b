// Package checkout sells what is in the basket: its carts.
package checkout

import "strings"

// ShowCarts gives all names in one line.
func ShowCarts(names []string) string {
	if len(names) == 0 {
		return "no carts"
	}
	return strings.Join(names, ", ")
}
