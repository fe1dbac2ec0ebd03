// Package managedfields reads what the API server keeps about who owns which field of an object. It tells whether an applied
// object still is what was applied, without asking the server and without knowing its schema.
package managedfields
