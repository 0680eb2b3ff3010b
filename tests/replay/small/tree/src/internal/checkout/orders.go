// Package checkout sells what is in the basket: its orders.
package checkout

import "strings"

// ShowOrders gives all names in one line.
func ShowOrders(names []string) string {
	if len(names) == 0 {
		return "no orders"
	}
	return strings.Join(names, ", ")
}
