// Package checkout sells what is in the basket: its payments.
package checkout

import "strings"

// ShowPayments gives all names in one line.
func ShowPayments(names []string) string {
	if len(names) == 0 {
		return "no payments"
	}
	return strings.Join(names, ", ")
}
