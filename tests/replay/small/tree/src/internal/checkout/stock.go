// Package checkout sells what is in the basket: its stock.
package checkout

import "strings"

// ShowStock gives all names in one line.
func ShowStock(names []string) string {
	if len(names) == 0 {
		return "no stock"
	}
	return strings.Join(names, ", ")
}
