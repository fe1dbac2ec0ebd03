package guestagent

// Text makes a text of a guest's fit to be shown.
func Text(s string) string { return text(s) }
