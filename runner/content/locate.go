package content

// Locate returns the file that a source on this machine is, by its path. No link in an image leads out of it.
func (s Source) Locate() (string, error) {
	if _, err := s.check(); err != nil {
		return "", err
	}
	f, err := s.openLocal()
	if err != nil {
		return "", explain(err)
	}
	defer f.Close()
	return f.Name(), nil
}
