// Package checkout sells what is in the basket: its invoices.
package checkout

import "strings"

// ShowInvoices gives all names in one line.
func ShowInvoices(names []string) string {
	if len(names) == 0 {
		return "no invoices"
	}
	return strings.Join(names, ", ")
}
