// Package checkout sells what is in the basket: its customers.
package checkout

import "strings"

// ShowCustomers gives all names in one line.
func ShowCustomers(names []string) string {
	if len(names) == 0 {
		return "no customers"
	}
	return strings.Join(names, ", ")
}
