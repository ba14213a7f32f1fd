// The examples of the op table as whole kernels.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kiln/dsl/ops.h"

namespace kiln::dsl::testing {

// Definitions that examples mention beside the parameters %P, %F and %n; each op takes what it needs.
inline const std::map<std::string, std::string>& definitions() {
  static const std::map<std::string, std::string> table = {
      {"floats", "%x = splat %F {shape = [BLOCK]} %y = splat %F {shape = [BLOCK]} %w = splat %F {shape = [BLOCK]}"},
      {"ints", "%x = arange {start = 0, end = BLOCK} %y = arange {start = 0, end = BLOCK}"},
      {"bits",
       "%t0 = constant {value = 1, type = i1} %x = splat %t0 {shape = [BLOCK]} %y = splat %t0 {shape = [BLOCK]}"},
      {"mask", "%t1 = constant {value = 1, type = i1} %m = splat %t1 {shape = [BLOCK]}"},
      {"pointers", "%q = splat %P {shape = [BLOCK]}"},
      {"base", "%p = splat %P {shape = [BLOCK]}"},
      {"scalar", "%x = constant {value = 1.0, type = f32}"},
      {"row", "%t2 = constant {value = 1.0, type = f32} %x = splat %t2 {shape = [BN]}"},
      {"flat", "%x = splat %F {shape = [2*BN]}"},
      {"line", "%x = splat %F {shape = [1, BN]}"},
      {"matrix", "%x = splat %F {shape = [BM, BN]}"},
      {"pairs", "%x = splat %F {shape = [BLOCK, 2]}"},
      {"eight", "%i = arange {start = 0, end = 8}"},
      {"index", "%i = arange {start = 0, end = BLOCK}"},
      {"offset", "%o = arange {start = 0, end = BLOCK}"},
      {"other", "%z = splat %F {shape = [BLOCK]} %e = splat %F {shape = [BLOCK]}"},
      {"block", "%x = splat %F {shape = [BM, BK]}"},
      {"view", "%d = descriptor %P, %n, %n, %n {block = [BM, BK]}"},
      {"rows", "%d = descriptor %P, %n, %n, %n {block = [1, BK]}"},
      {"dot", "%a = splat %F {shape = [BM, BN]} %b = splat %F {shape = [BN, BN]} %acc = splat %F {shape = [BM, BN]}"},
      {"scaled",
       "%u = constant {value = 0, type = u8} %a = splat %u {shape = [BM, 32]} %as = splat %u {shape = [BM, 2]} "
       "%b = splat %u {shape = [32, BN]} %bs = splat %u {shape = [BN, 2]} %acc = splat %F {shape = [BM, BN]}"},
      {"words",
       "%t3 = constant {value = 1, type = u64} %s = splat %t3 {shape = [BLOCK]} %o = splat %t3 {shape = [BLOCK]}"},
      {"loop",
       "%lo = constant {value = 0, type = i32} %hi = constant {value = 9, type = i32} %st = constant {value = 1, "
       "type = i32} %init = splat %F {shape = [BLOCK]}"},
      {"choice", "%c = cmp %n, %n {pred = eq} %x = constant {value = 1.0, type = f32} %y = neg %x"},
      {"in loop", "%z = constant {value = 0, type = i32} %r = for %k = %z to %n step %n carry (%x = %F) {"},
  };
  return table;
}

inline std::vector<std::string> needs(const std::string& op) {
  static const std::map<std::string, std::vector<std::string>> table = {
      {"splat", {"scalar"}},
      {"broadcast", {"line"}},
      {"expand_dims", {"row"}},
      {"reshape", {"flat"}},
      {"permute", {"matrix"}},
      {"split", {"pairs"}},
      {"gather", {"floats", "eight"}},
      {"rem", {"ints"}},
      {"mulhi", {"ints"}},
      {"shl", {"ints"}},
      {"shr", {"ints"}},
      {"histogram", {"ints"}},
      {"and", {"bits"}},
      {"or", {"bits"}},
      {"xor", {"bits"}},
      {"cast", {"ints"}},
      {"addptr", {"base", "offset"}},
      {"load", {"pointers", "mask", "other"}},
      {"store", {"pointers", "mask", "floats"}},
      {"atomic_rmw", {"pointers", "mask", "floats"}},
      {"atomic_cas", {"pointers", "mask", "floats", "other"}},
      {"load_tile", {"view"}},
      {"store_tile", {"view", "block"}},
      {"reduce_tile", {"view", "block"}},
      {"gather_rows", {"rows", "eight"}},
      {"select", {"floats", "mask"}},
      {"dot", {"dot"}},
      {"dot_scaled", {"scaled"}},
      {"sort", {"floats", "index"}},
      {"philox", {"words"}},
      {"for", {"loop"}},
      {"if", {"choice"}},
      {"assert", {"mask"}},
      {"yield", {"in loop"}},
  };
  auto found = table.find(op);
  return found == table.end() ? std::vector<std::string>{"floats"} : found->second;
}

// The example of an op inside a kernel that defines what it mentions.
inline std::string example_kernel(const OpInfo& op) {
  std::string body;
  for (const std::string& what : needs(op.name)) body += definitions().at(what) + "\n  ";
  std::string example = op.example;
  // The loops' examples stand for any body.
  const std::vector<std::string> bodies =
      op.name == "while" ? std::vector<std::string>{"%more = cmp %a, %n {pred = lt}", "%next = add %b, %b"}
                         : std::vector<std::string>{"%next = add %acc, %acc"};
  for (const std::string& inner : bodies) {
    if (size_t dots = example.find("…"); dots != std::string::npos) {
      example.replace(dots, std::string("…").size(), inner);
    }
  }
  if (op.name == "yield") example += " }";
  return "kernel k(%P: ptr<f32>, %F: f32, %n: i32) {\n  constexpr BLOCK = 16 constexpr BM = 16 constexpr BN = 8 "
         "constexpr BK = 32\n  " +
         body + example + "\n}";
}

}  // namespace kiln::dsl::testing
