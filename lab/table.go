package lab

import (
	"fmt"
	"math"
	"reflect"
	"strings"

	"github.com/sluice-limiter/sluice/lab/plot"
)

// A Table is the rows of an experiment, a column for each field. A column's name
// is the field's JSON name, its unit the field's tag `unit` or the end of the
// name. Text, and what is tagged `lab:"label"`, tells the rows apart; the rest is
// measured.
type Table struct {
	Columns []Column
	Cells   [][]any // in rows
}

// A Column is one field of all rows.
type Column struct {
	Name  string
	Unit  string // "": a number of something, or text
	Label bool   // tells rows apart
}

// tableOf makes a table of a slice of structs; of anything else an empty one.
func tableOf(rows any) *Table {
	t := &Table{}
	v := reflect.ValueOf(rows)
	if v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.Struct {
		return t
	}
	row := v.Type().Elem()
	for field := range row.Fields() {
		t.Columns = append(t.Columns, columnOf(field))
	}
	for i := range v.Len() {
		var cells []any
		for _, field := range v.Index(i).Fields() {
			cells = append(cells, field.Interface())
		}
		t.Cells = append(t.Cells, cells)
	}
	return t
}

func columnOf(field reflect.StructField) Column {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	if name == "" {
		name = field.Name
	}
	c := Column{Name: name, Unit: field.Tag.Get("unit")}
	c.Label = field.Type.Kind() == reflect.String || field.Tag.Get("lab") == "label"
	if at := strings.LastIndexByte(name, '_'); c.Unit == "" && at >= 0 && !strings.HasSuffix(name[:at], "_per") {
		c.Unit = units[name[at+1:]]
	}
	return c
}

// units are what a name may end with.
var units = map[string]string{"s": "s", "ms": "ms", "us": "µs", "mb": "MB", "percent": "%"}

// words returns the column's name in words, without the unit if it ends with one.
func (c *Column) words() (words string, saysUnit bool) {
	name := c.Name
	if at := strings.LastIndexByte(name, '_'); c.Unit != "" && at > 0 && units[name[at+1:]] == c.Unit {
		name, saysUnit = name[:at], true
	}
	return strings.ReplaceAll(name, "_", " "), saysUnit
}

// Title is the column's name as a person writes it, with its unit.
func (c *Column) Title() string {
	title, _ := c.words()
	if c.Unit != "" {
		title += " (" + c.Unit + ")"
	}
	return title
}

// column returns the index of a column, -1 if there is none.
func (t *Table) column(name string) int {
	for i := range t.Columns {
		if t.Columns[i].Name == name {
			return i
		}
	}
	return -1
}

// Label returns what tells a row apart, its texts and labels.
func (t *Table) Label(row int) string {
	var parts []string
	for i, c := range t.Columns {
		if c.Label {
			parts = append(parts, cellText(t.Cells[row][i]))
		}
	}
	return strings.Join(parts, " ")
}

// Number returns a cell as a number, NaN if it holds none.
func (t *Table) Number(row int, column string) float64 {
	i := t.column(column)
	if i < 0 {
		return math.NaN()
	}
	switch v := reflect.ValueOf(t.Cells[row][i]); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanFloat():
		return v.Float()
	}
	return math.NaN()
}

// cellText writes a cell.
func cellText(cell any) string {
	switch v := reflect.ValueOf(cell); {
	case v.CanFloat():
		return number(v.Float())
	case v.CanInt():
		return number(float64(v.Int()))
	}
	return fmt.Sprint(cell)
}

// number writes a number as plots do.
func number(f float64) string { return plot.Number(f) }
