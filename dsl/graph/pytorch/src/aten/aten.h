// The table of PyTorch's ATen operators as data; see aten_ops.def. docs/reference/graph-aten.md shows it.
#pragma once

#include <span>
#include <string_view>

namespace kiln::graph {

enum class AtenKind : uint8_t {
  kOp,          // one primitive
  kComposite,   // one composite
  kExpression,  // several ops
  kNothing,     // the value itself
  kValue,       // no tensor: an expression over dims, or a known value
  kNo,          // there is no such graph
};

struct AtenRow {
  std::string_view name;       // "aten::add.Tensor"
  std::string_view arguments;  // "self other alpha"
  bool core;
  AtenKind kind;
  std::string_view expression;
  std::string_view note;
};

// By family. Thread-safe.
std::span<const AtenRow> aten_table();
// Null where the table has none of this name.
const AtenRow* find_aten(std::string_view name);

}  // namespace kiln::graph
