#include "op_examples.h"

#include <map>
#include <regex>
#include <set>

namespace kiln::graph {
namespace {

constexpr const char* kCombine = R"(body @f(%a: f32[], %b: f32[]) {
  %c = add %a, %b : f32[]
  output c = %c
}
)";
constexpr const char* kUnary = R"(body @f(%x: f32[n]) {
  %y = exp %x : f32[n]
  output y = %y
}
)";
constexpr const char* kOther = R"(body @g(%x: f32[n]) {
  %y = neg %x : f32[n]
  output y = %y
}
)";
constexpr const char* kStep = R"(body @step(%h: f32[4], %x: f32[4], %w: f32[4]) {
  %0 = fma %h, %w, %x : f32[4]
  %1 = tanh %0 : f32[4]
  output h = %1
  output y = %0
}
)";
constexpr const char* kDouble = R"(kernel @k {
  operands f32[n]
  results f32[n]
  arguments operand 0, result 0, n
  kernel twice(%x: ptr<f32> readonly, %y: ptr<f32>, %n: i32) {
    constexpr BLOCK = 256
    grid [div(n + BLOCK - 1, BLOCK), 1, 1]

    %pid = program_id {axis = 0} : i32
    %block = constant {value = BLOCK, type = i32} : i32
    %base = mul %pid, %block : i32
    %lanes = arange {start = 0, end = BLOCK} : tile<[BLOCK], i32>
    %start = splat %base {shape = [BLOCK]} : tile<[BLOCK], i32>
    %at = add %start, %lanes : tile<[BLOCK], i32>
    %end = splat %n {shape = [BLOCK]} : tile<[BLOCK], i32>
    %m = cmp %at, %end {pred = lt} : tile<[BLOCK], i1>
    %xp = splat %x {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
    %xq = addptr %xp, %at : tile<[BLOCK], ptr<f32>>
    %zero = constant {value = 0.0, type = f32} : f32
    %zeros = splat %zero {shape = [BLOCK]} : tile<[BLOCK], f32>
    %v = load %xq, %m, %zeros : tile<[BLOCK], f32>
    %w = add %v, %v : tile<[BLOCK], f32>
    %yp = splat %y {shape = [BLOCK]} : tile<[BLOCK], ptr<f32>>
    %yq = addptr %yp, %at : tile<[BLOCK], ptr<f32>>
    store %yq, %w, %m
  }
}
)";

struct Surroundings {
  std::string inputs;
  std::string before = "";  // bodies and kernels
};

const std::map<std::string, Surroundings>& surroundings() {
  static const auto& table = *new std::map<std::string, Surroundings>{
      {"constant", {""}},
      {"full", {""}},
      {"extent", {""}},
      {"iota", {""}},
      {"philox", {"%s: u64[], %o: u64[]"}},
      {"cmp", {"%a: f32[n], %b: f32[n]"}},
      {"select", {"%m: i1[n], %a: f32[n], %b: f32[n]"}},
      {"cast", {"%x: f32[n]"}},
      {"bitcast", {"%x: f32[n]"}},
      {"isnan", {"%x: f32[n]"}},
      {"isinf", {"%x: f32[n]"}},
      {"signbit", {"%x: f32[n]"}},
      {"reshape", {"%x: f32[n, 2]"}},
      {"permute", {"%x: f32[n, 4]"}},
      {"broadcast", {"%x: f32[4]"}},
      {"slice", {"%x: f32[n, 4]"}},
      {"reverse", {"%x: f32[n]"}},
      {"pad", {"%x: f32[n], %v: f32[]"}},
      {"cat", {"%a: f32[n], %b: f32[n]"}},
      {"gather", {"%x: f32[n], %i: i64[n]"}},
      {"scatter", {"%x: f32[n], %i: i64[n], %v: f32[n]"}},
      {"index", {"%x: f32[n, 4], %i: i64[m]"}},
      {"index_put", {"%x: f32[n, 4], %v: f32[m, 4], %i: i64[m]"}},
      {"reduce", {"%x: f32[n, 4]"}},
      {"arg_reduce", {"%x: f32[n, 4]"}},
      {"reduce_custom", {"%x: f32[n, 4], %init: f32[]", kCombine}},
      {"scan", {"%x: f32[n]"}},
      {"scan_custom", {"%x: f32[n]", kCombine}},
      {"sort", {"%x: f32[n]"}},
      {"topk", {"%x: f32[n]"}},
      {"histogram", {"%x: i32[n]"}},
      {"dot", {"%a: f32[n, 8], %b: f32[8, 4]"}},
      {"conv", {"%x: f32[n, 4, 16], %w: f32[8, 4, 3]"}},
      {"conv_input", {"%g: f32[n, 8, 16], %w: f32[8, 4, 3]"}},
      {"conv_weight", {"%x: f32[n, 4, 16], %g: f32[n, 8, 16]"}},
      {"window", {"%x: f32[2*n]"}},
      {"window_spread", {"%x: f32[2*n], %g: f32[n]"}},
      {"window_pick", {"%x: f32[2*n], %t: f32[2*n]"}},
      {"resize", {"%x: f32[4, n]"}},
      {"resize_spread", {"%g: f32[4, 2*n]"}},
      {"loop", {"%h0: f32[4], %xs: f32[n, 4], %w: f32[4]", kStep}},
      {"cond", {"%p: i1[], %x: f32[n]", std::string(kUnary) + kOther}},
      {"call", {"%x: f32[n]", kUnary}},
      {"kernel", {"%x: f32[n]", kDouble}},
      {"mean", {"%x: f32[n, 4]"}},
      {"variance", {"%x: f32[n, 4]"}},
      {"logsumexp", {"%x: f32[n, 4]"}},
      {"softmax", {"%x: f32[n]"}},
      {"log_softmax", {"%x: f32[n]"}},
      {"layer_norm", {"%x: f32[n, 4], %w: f32[4], %b: f32[4]"}},
      {"rms_norm", {"%x: f32[n, 4], %w: f32[4]"}},
      {"group_norm", {"%x: f32[n, 4, 8], %w: f32[4], %b: f32[4]"}},
      {"batch_norm", {"%x: f32[n, 4, 8], %m: f32[4], %v: f32[4], %w: f32[4], %b: f32[4]"}},
      {"batch_norm_training", {"%x: f32[n, 4, 8], %m: f32[4], %v: f32[4], %w: f32[4], %b: f32[4]"}},
      {"linear", {"%x: f32[n, 4], %w: f32[8, 4], %b: f32[8]"}},
      {"conv_bias", {"%x: f32[n, 4, 16], %w: f32[8, 4, 3], %b: f32[8]"}},
      {"max_pool", {"%x: f32[n, 4, 16]"}},
      {"avg_pool", {"%x: f32[n, 4, 16]"}},
      {"embedding", {"%t: f32[n, 4], %i: i64[m]"}},
      {"embedding_bag", {"%t: f32[n, 4], %i: i64[m], %o: i64[b]"}},
      {"attention", {"%q: f32[b, 4, n, 8], %k: f32[b, 2, n, 8], %v: f32[b, 2, n, 8]"}},
      {"paged_attention",
       {"%q: f32[b, 4, 8], %kp: f32[m, 2, 16, 8], %vp: f32[m, 2, 16, 8], %t: i32[b, n], %l: i32[b]"}},
      {"cross_entropy", {"%x: f32[n, 10], %t: i64[n]"}},
      {"rope", {"%x: f32[b, n, 8], %c: f32[n, 4], %s: f32[n, 4]"}},
      {"dropout", {"%x: f32[n], %s: u64[], %o: u64[]"}},
      {"interaction", {"%d: f32[b, 8], %f: f32[b, 4, 8]"}},
      {"one_hot", {"%i: i64[n]"}},
      {"triangle", {"%x: f32[n, n]"}},
      {"quantise", {"%x: f32[n, 4], %s: f32[], %z: i8[]"}},
      {"dequantise", {"%x: i8[n, 4], %s: f32[], %z: i8[]"}},
      {"sgd_step", {"%p: f32[n], %g: f32[n], %lr: f32[]"}},
      {"momentum_step", {"%p: f32[n], %g: f32[n], %b: f32[n], %lr: f32[]"}},
      {"adam_step", {"%p: f32[n], %g: f32[n], %m: f32[n], %v: f32[n], %lr: f32[], %t: f32[]"}},
      {"adagrad_step", {"%p: f32[n], %g: f32[n], %s: f32[n], %lr: f32[]"}},
      {"lamb_step", {"%p: f32[n], %g: f32[n], %m: f32[n], %v: f32[n], %lr: f32[], %t: f32[]"}},
  };
  return table;
}

// Of an elementwise op: its operands are of its result's type.
std::string elementwise_inputs(const OpInfo& op) {
  const std::string& text = op.example;
  const std::string type = text.substr(text.rfind(": ") + 2);
  const std::regex value("%[a-z0-9_]+");
  std::string out;
  std::set<std::string> seen;
  for (auto it = std::sregex_iterator(text.begin() + static_cast<ptrdiff_t>(text.find('=')), text.end(), value);
       it != std::sregex_iterator(); ++it) {
    if (seen.insert(it->str()).second) out += (out.empty() ? "" : ", ") + it->str() + ": " + type;
  }
  return out;
}

}  // namespace

std::string example_graph(TensorOp code) {
  const OpInfo& op = info(code);
  const auto entry = surroundings().find(op.name);
  const bool known = entry != surroundings().end();
  if (!known && op.family != Family::kElementwise) return "";
  const std::string inputs = known ? entry->second.inputs : elementwise_inputs(op);
  // The results of some examples have the names of operands, as the op's documentation has them.
  std::string outputs;
  const std::string results = op.example.substr(0, op.example.find('='));
  const std::regex value("%([a-z0-9_]+)");
  for (auto it = std::sregex_iterator(results.begin(), results.end(), value); it != std::sregex_iterator(); ++it) {
    outputs += "  output " + (*it)[1].str() + " = " + it->str() + "\n";
  }
  return "dim n: 4..1024\ndim m\ndim b\n\n" + (known ? entry->second.before : "") + "graph example(" + inputs +
         ") {\n  " + op.example + "\n" + outputs + "}\n";
}

}  // namespace kiln::graph
