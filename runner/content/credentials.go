package content

import "fmt"

// Credentials are what a server wants to see. They are never printed.
type Credentials struct {
	// Username and Password are for basic authentication.
	Username, Password string
	// Authorization is a whole value for the header of this name, such as "Bearer ...". It comes before the other two.
	Authorization string
}

// String hides the credentials.
func (c Credentials) String() string {
	if c == (Credentials{}) {
		return "none"
	}
	return "hidden"
}

// GoString hides them from %#v as well.
func (c Credentials) GoString() string { return fmt.Sprintf("content.Credentials(%s)", c) }
