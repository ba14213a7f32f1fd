// The layout of the binary form, shared by its writer and its reader. All of it is CBOR; arrays stand for records, so
// that no order of keys is left open.
//
//   canonical  [tag, name, params, constexpr count, grid, options, body]; of a request also target, constexprs, facts,
//              and the output (`emit`) unless it is "so"; of kernels whose code or launches name source lines (options
//              debug and check_bounds, the op print) the output always, and [files, locations]. The constexprs are
//              numbers in the kernel's order, and behind them, where any is chosen, the schedule options in the order
//              of kiln/target/schedule_options.def, up to the last that is chosen but at least two; 0 for others
//     options  in the order of kernel_options(): true, false, or the text "lines" of debug
//     param    [element, pointer, readonly, may_alias]
//     op       [code, operands, attrs, result count, regions…]; a region is [argument count, ops]
//     attr     int → int · Expr → expression · list → array · element → [0, element] · literal → [1, bits] ·
//              string → text
//     expression  int when constant, else [[coefficient, atom…]…]; atom [kind, index] or [kind, expression, expression]
//   debug      [tag, params, constexprs with defaults, space, files, value names, locations, target defaults,
//              constraints, arrays, and where any constraint has one, all their messages]; an array is
//              [parameter, elements, [] or [low, high]]
//
// Values have no numbers of their own in an op: each result and each region argument takes the next one, in the order
// of canonical.h, and types follow from infer_types.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "kiln/dsl/cbor_writer.h"
#include "kiln/dsl/ir.h"

namespace kiln::dsl {

using Json = nlohmann::json;

inline constexpr const char* kCanonicalTag = "kiln-kernel-2";
inline constexpr const char* kDebugTag = "kiln-debug-4";

// binary_encode.cpp. The kernel must be canonical.
inline constexpr size_t kCanonicalFields = 7;  // tag to body, of the canonical section's array
void write_canonical_fields(const Kernel& kernel, CborWriter& out);
void write_debug(const Kernel& kernel, CborWriter& out);
// [files, locations], a part of the canonical section where what a launch reports depends on them.
void write_lines(const Kernel& kernel, CborWriter& out);

// binary_decode.cpp: everything an untrusted record may break is checked, and thrown as this inside the reader only.
struct BadBytes {
  std::string what;
};
// Bytes as values, within limits of size and nesting. binary.cpp
Json from_bytes(std::span<const std::byte> bytes, const char* what);
// Kernel without names, locations, defaults and what the tuner wants.
Kernel decode_canonical(const Json& record);
// binary_expr.cpp: of a kernel whose parameters and constexprs are there.
Expr decode_expr(const Json& value, const Kernel& kernel);
// binary_debug.cpp: adds what decode_canonical leaves out.
void decode_debug(const Json& record, Kernel& kernel);
void decode_lines(const Json& record, Kernel& kernel);
// Names by position, for a kernel without its debug section.
void name_by_position(Kernel& kernel);

// Typed access for the readers; each throws BadBytes.
const Json& field(const Json& array, size_t index);
const Json& as_array(const Json& value, const char* what, size_t most);
int64_t as_int(const Json& value, const char* what);
uint64_t as_uint(const Json& value, const char* what, uint64_t most);
bool as_bool(const Json& value, const char* what);
const std::string& as_text(const Json& value, const char* what);

}  // namespace kiln::dsl
