package harness

import (
	"os"
	"path/filepath"
)

// Write writes a file and the folders that it lies in.
func Write(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}

// WriteAll writes files into a folder, such as the models and manifests of a repository.
func WriteAll(folder string, files map[string][]byte) error {
	for name, data := range files {
		if err := Write(filepath.Join(folder, name), data); err != nil {
			return err
		}
	}
	return nil
}

// InFolder does something in a folder of its own. The folder stays if that fails: the logs there are of use.
func InFolder(name string, do func(folder string) error) error {
	folder, err := os.MkdirTemp("", name)
	if err != nil {
		return err
	}
	if err := do(folder); err != nil {
		return err
	}
	return os.RemoveAll(folder)
}
