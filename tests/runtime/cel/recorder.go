// Evaluates expressions with the libraries of Kubernetes: reads a line of JSON ({"e": "1 + 1"}), and writes one.
//
// Its only argument is the value of self, in JSON. Build it inside a tree of Kubernetes, for instance with
// go build -overlay, because its libraries cannot be imported from elsewhere; see test_upstream_results.py.

//go:build ignore

package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

type in struct {
	E string `json:"e"`
}
type out struct {
	Issues string `json:"issues,omitempty"`
	Type   string `json:"type,omitempty"`
	Value  string `json:"value,omitempty"`
	Err    string `json:"err,omitempty"`
	Cost   uint64 `json:"cost"`
	Min    uint64 `json:"min"`
	Max    uint64 `json:"max"`
	Ms     int64  `json:"ms"`
}

type est struct{}

func (est) EstimateSize(n checker.AstNode) *checker.SizeEstimate {
	p := n.Path()
	if len(p) == 0 {
		return nil
	}
	switch p[0] {
	case "s", "l", "ls", "m", "y":
		if len(p) == 1 {
			return &checker.SizeEstimate{Min: 0, Max: 20}
		}
		return &checker.SizeEstimate{Min: 0, Max: 10}
	}
	return nil
}
func (est) EstimateCallCost(f, o string, t *checker.AstNode, a []checker.AstNode) *checker.CallEstimate {
	return nil
}

func show(v ref.Val) string {
	switch x := v.(type) {
	case types.Bool:
		return fmt.Sprint(bool(x))
	case types.Int:
		return fmt.Sprint(int64(x))
	case types.Uint:
		return fmt.Sprint(uint64(x)) + "u"
	case types.Double:
		return "d" + strconv.FormatFloat(float64(x), 'e', -1, 64)
	case types.String:
		b, _ := json.Marshal(string(x))
		return string(b)
	case types.Bytes:
		return "b" + hex.EncodeToString([]byte(x))
	case types.Null:
		return "null"
	case types.Timestamp:
		return fmt.Sprintf("T%d.%09d", x.Time.Unix(), x.Time.Nanosecond())
	case types.Duration:
		return fmt.Sprintf("D%d", int64(x.Duration))
	case *types.Optional:
		if x.HasValue() {
			return "opt(" + show(x.GetValue()) + ")"
		}
		return "none"
	case *types.Type:
		return "type:" + x.TypeName()
	case traits.Lister:
		parts := []string{}
		n := int64(x.Size().(types.Int))
		for i := int64(0); i < n; i++ {
			parts = append(parts, show(x.Get(types.Int(i))))
		}
		return "[" + strings.Join(parts, ",") + "]"
	case traits.Mapper:
		parts := []string{}
		it := x.Iterator()
		for it.HasNext() == types.True {
			k := it.Next()
			parts = append(parts, show(k)+":"+show(x.Get(k)))
		}
		sort.Strings(parts)
		return "{" + strings.Join(parts, ",") + "}"
	}
	return "?" + v.Type().TypeName()
}

func main() {
	set := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
	var self interface{}
	utiljson.Unmarshal([]byte(os.Args[1]), &self)
	e := set.NewExpressionsEnv()
	env, err := e.Extend(
		cel.Variable("self", cel.DynType), cel.Variable("i", cel.IntType), cel.Variable("u", cel.UintType),
		cel.Variable("d", cel.DoubleType), cel.Variable("s", cel.StringType), cel.Variable("b", cel.BoolType),
		cel.Variable("y", cel.BytesType), cel.Variable("l", cel.ListType(cel.IntType)), cel.Variable("ls", cel.ListType(cel.StringType)),
		cel.Variable("m", cel.MapType(cel.StringType, cel.IntType)), cel.Variable("t", cel.TimestampType), cel.Variable("r", cel.DurationType),
	)
	if err != nil {
		panic(err)
	}
	vars := map[string]interface{}{
		"self": self, "i": int64(7), "u": uint64(9), "d": 2.5, "s": "héllo wörld", "b": true, "y": []byte("bytes\xff"),
		"l": []int64{3, 1, 2}, "ls": []string{"b", "a", "c"}, "m": map[string]int64{"x": 1, "y": 2},
		"t": time.Date(2024, 2, 29, 12, 34, 56, 789000000, time.UTC), "r": 90*time.Minute + 30*time.Second + 5*time.Millisecond,
	}
	sc := bufio.NewScanner(os.Stdin)
	sc.Buffer(make([]byte, 1<<20), 1<<28)
	w := bufio.NewWriter(os.Stdout)
	defer w.Flush()
	ce := &library.CostEstimator{SizeEstimator: est{}}
	for sc.Scan() {
		var q in
		if err := json.Unmarshal(sc.Bytes(), &q); err != nil {
			panic(err)
		}
		o := out{}
		func() {
			defer func() {
				if r := recover(); r != nil {
					o.Err = fmt.Sprint("PANIC ", r)
				}
			}()
			start := time.Now()
			defer func() { o.Ms = time.Since(start).Milliseconds() }()
			ast, iss := env.Compile(q.E)
			if iss.Err() != nil {
				o.Issues = iss.String()
				return
			}
			o.Type = ast.OutputType().String()
			ec, err := env.EstimateCost(ast, ce)
			if err == nil {
				o.Min, o.Max = ec.Min, ec.Max
			}
			prg, err := env.Program(ast, cel.CostLimit(1000000), cel.CostTracking(ce), cel.InterruptCheckFrequency(100))
			if err != nil {
				o.Err = "program: " + err.Error()
				return
			}
			v, det, err := prg.Eval(vars)
			if det != nil && det.ActualCost() != nil {
				o.Cost = *det.ActualCost()
			}
			if err != nil {
				o.Err = err.Error()
				return
			}
			o.Value = show(v)
		}()
		b, _ := json.Marshal(o)
		w.Write(b)
		w.WriteByte('\n')
		w.Flush()
	}
}
