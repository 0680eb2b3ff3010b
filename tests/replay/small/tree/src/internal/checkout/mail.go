// Package checkout sells what is in the basket: its mail.
package checkout

import "strings"

// ShowMail gives all names in one line.
func ShowMail(names []string) string {
	if len(names) == 0 {
		return "no mail"
	}
	return strings.Join(names, ", ")
}
