// Package checkout sells what is in the basket: its vouchers.
package checkout

import "strings"

// ShowVouchers gives all names in one line.
func ShowVouchers(names []string) string {
	if len(names) == 0 {
		return "no vouchers"
	}
	return strings.Join(names, ", ")
}
