package runner

import "context"

func (v *vm) resolve(ctx context.Context) (map[string]map[string]string, error) {
	chosen := make(map[string]map[string]string)
	for name, choice := range v.cfg.Resolve {
		chosen[name] = choice.Alternatives[0]
	}
	return chosen, nil
}
