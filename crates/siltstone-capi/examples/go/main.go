// A tour in Go, by cgo: open, put, get, many keys at once, all records.
package main

// #cgo pkg-config: siltstone
// #include <siltstone.h>
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"
)

// Database is a Siltstone database. All goroutines may use it at once.
type Database struct {
	handle *C.siltstone_t
}

// checked frees a message of the library and returns it as an error.
func checked(message *C.char) error {
	if message == nil {
		return nil
	}
	defer C.siltstone_free(unsafe.Pointer(message))
	return errors.New(C.GoString(message))
}

func pointer(bytes []byte) unsafe.Pointer {
	return unsafe.Pointer(unsafe.SliceData(bytes))
}

// Open opens a database, or creates it, with settings by name. A setting that is not possible is an error here: the
// library checks the settings when they are used.
func Open(path string, settings map[string]string) (*Database, error) {
	options := C.siltstone_options_create()
	defer C.siltstone_options_destroy(options)
	for name, value := range settings {
		cName, cValue := C.CString(name), C.CString(value)
		C.siltstone_options_set(options, cName, cValue)
		C.siltstone_free(unsafe.Pointer(cName))
		C.siltstone_free(unsafe.Pointer(cValue))
	}
	cPath := C.CString(path)
	defer C.siltstone_free(unsafe.Pointer(cPath))
	var message *C.char
	handle := C.siltstone_open(cPath, options, &message)
	if handle == nil {
		return nil, checked(message)
	}
	return &Database{handle}, nil
}

// Close closes the database.
func (database *Database) Close() error {
	var message *C.char
	C.siltstone_close(database.handle, &message)
	return checked(message)
}

// Put sets the value of a key.
func (database *Database) Put(key, value []byte) error {
	var message *C.char
	C.siltstone_put(database.handle, pointer(key), C.size_t(len(key)), pointer(value), C.size_t(len(value)), &message)
	return checked(message)
}

// Get returns the value of a key; nil if it is absent.
func (database *Database) Get(key []byte) ([]byte, error) {
	var message *C.char
	var length C.size_t
	value := C.siltstone_get(database.handle, pointer(key), C.size_t(len(key)), &length, &message)
	if value == nil {
		return nil, checked(message)
	}
	defer C.siltstone_free(unsafe.Pointer(value))
	return C.GoBytes(unsafe.Pointer(value), C.int(length)), nil
}

// GetRows reads the values of keys of one length into rows of one length, with one call.
func (database *Database) GetRows(keys []byte, keyLength int, values []byte, valueLength int) ([]bool, error) {
	found := make([]bool, len(keys)/keyLength)
	var message *C.char
	C.siltstone_get_rows(database.handle, pointer(keys), C.size_t(keyLength), C.size_t(len(found)), pointer(values),
		C.size_t(valueLength), (*C.bool)(unsafe.Pointer(unsafe.SliceData(found))), &message)
	return found, checked(message)
}

// Count returns the number of records.
func (database *Database) Count() (int, error) {
	var message *C.char
	records := C.siltstone_iterate(database.handle, &message)
	defer C.siltstone_iterator_destroy(records)
	count := 0
	for records != nil && bool(C.siltstone_iterator_next(records, &message)) {
		count++
	}
	return count, checked(message)
}

func run(directory string) error {
	database, err := Open(filepath.Join(directory, "colours.db"), map[string]string{"memory_budget": "16MiB"})
	if err != nil {
		return err
	}
	for key, value := range map[string]string{"rose": "red_", "iris": "blue"} {
		if err := database.Put([]byte(key), []byte(value)); err != nil {
			return err
		}
	}
	value, err := database.Get([]byte("rose"))
	if err != nil || string(value) != "red_" {
		return fmt.Errorf("rose is %q: %w", value, err)
	}
	rows := make([]byte, 3*4)
	found, err := database.GetRows([]byte("rosenoneiris"), 4, rows, 4)
	if err != nil || fmt.Sprint(found) != "[true false true]" || string(rows[8:]) != "blue" {
		return fmt.Errorf("rows are %q, %v: %w", rows, found, err)
	}
	count, err := database.Count()
	if err != nil {
		return err
	}
	fmt.Println(count, "colours")
	if none, err := Open("/dev/null", nil); none != nil || err == nil {
		return errors.New("a file was opened as a database")
	}
	misspelt := map[string]string{"memory_bugdet": "16MiB"}
	if none, err := Open(filepath.Join(directory, "other.db"), misspelt); none != nil || err == nil {
		return errors.New("a setting that does not exist was accepted")
	}
	return database.Close()
}

func main() {
	directory := "."
	if len(os.Args) > 1 {
		directory = os.Args[1]
	}
	if err := run(directory); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
