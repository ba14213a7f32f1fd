// The debug section back to names, locations, space and defaults.
#include "binary/binary_format.h"
#include "ir/kernel_limits.h"
#include "kiln/dsl/walk.h"

namespace kiln::dsl {
namespace {

constexpr uint64_t kMaxNumber = 0xffffffff;

uint32_t next_number(const Json& list, size_t& at) {
  return static_cast<uint32_t>(as_uint(field(list, at++), "a location", kMaxNumber));
}

void decode_files(const Json& list, Kernel& kernel) {
  kernel.files.clear();
  for (const Json& file : as_array(list, "the files", kMaxListed)) {
    kernel.files.push_back(as_text(file, "a file's name"));
  }
}

void decode_locations(const Json& record, Kernel& kernel) {
  const Json& locations = as_array(record, "the locations", kMaxOps * 3);
  size_t at = 0;
  for_each_op(kernel, [&](Op& op) {
    op.loc.file = next_number(locations, at);
    op.loc.line = next_number(locations, at);
    op.loc.column = next_number(locations, at);
  });
  if (at != locations.size()) throw BadBytes{"the locations are those of another kernel"};
}

void decode_target_defaults(const Json& record, Kernel& kernel) {
  for (const Json& entry : as_array(record, "the targets' defaults", kMaxListed)) {
    ConstexprValues& values = kernel.target_defaults[as_text(field(entry, 0), "a target")];
    for (const Json& item : as_array(field(entry, 1), "a target's defaults", kMaxListed)) {
      values[as_text(field(item, 0), "a default's name")] = as_int(field(item, 1), "a default");
    }
  }
}

void decode_arrays(const Json& record, Kernel& kernel) {
  for (const Json& entry : as_array(record, "the arrays", kMaxListed)) {
    ArrayInfo array{as_text(field(entry, 0), "an array's name"), decode_expr(field(entry, 1), kernel), std::nullopt};
    if (as_array(field(entry, 2), "a range", 2).size() == 2) {
      array.range.emplace(decode_expr(field(field(entry, 2), 0), kernel),
                          decode_expr(field(field(entry, 2), 1), kernel));
    }
    kernel.arrays.push_back(std::move(array));
  }
}

// A list that must match one of the kernel's, entry by entry.
const Json& matching(const Json& value, const char* what, size_t count) {
  if (as_array(value, what, value.size()).size() != count) {
    throw BadBytes{std::string("the debug section is of another kernel: ") + what + " do not match"};
  }
  return value;
}

}  // namespace

void decode_debug(const Json& record, Kernel& kernel) {
  if (as_text(field(record, 0), "the tag") != kDebugTag) throw BadBytes{"the debug section is of another version"};
  const Json& params = matching(field(record, 1), "parameters", kernel.params.size());
  for (size_t i = 0; i < params.size(); ++i) kernel.params[i].name = as_text(params[i], "a parameter's name");
  const Json& constexprs = matching(field(record, 2), "constexprs", kernel.constexprs.size());
  for (size_t i = 0; i < constexprs.size(); ++i) {
    const Json& value = field(constexprs[i], 1);
    kernel.constexprs[i].name = as_text(field(constexprs[i], 0), "a constexpr's name");
    if (!value.is_null()) kernel.constexprs[i].default_value = as_int(value, "a default");
  }
  for (const Json& axis : as_array(field(record, 3), "the space", kMaxListed)) {
    SpaceAxis out{as_text(field(axis, 0), "an axis"), {}};
    if (axis.size() > 2) out.target = as_text(field(axis, 2), "an axis' target");
    for (const Json& value : as_array(field(axis, 1), "an axis", kMaxListed))
      out.values.push_back(as_int(value, "a value"));
    kernel.space.push_back(std::move(out));
  }
  decode_files(field(record, 4), kernel);
  const Json& names = matching(field(record, 5), "value names", kernel.values.size());
  for (size_t i = 0; i < names.size(); ++i) kernel.values[i].name = as_text(names[i], "a value's name");
  decode_locations(field(record, 6), kernel);
  decode_target_defaults(field(record, 7), kernel);
  for (const Json& constraint : as_array(field(record, 8), "the constraints", kMaxListed)) {
    kernel.constraints.push_back({decode_expr(constraint, kernel), {}});
  }
  decode_arrays(field(record, 9), kernel);
  if (record.size() <= 10) return;
  const Json& messages = matching(field(record, 10), "the constraints' messages", kernel.constraints.size());
  for (size_t i = 0; i < messages.size(); ++i) kernel.constraints[i].message = as_text(messages[i], "a message");
}

void decode_lines(const Json& record, Kernel& kernel) {
  decode_files(field(record, 0), kernel);
  decode_locations(field(record, 1), kernel);
}

void name_by_position(Kernel& kernel) {
  for (size_t i = 0; i < kernel.params.size(); ++i) kernel.params[i].name = "arg" + std::to_string(i);
  for (size_t i = 0; i < kernel.constexprs.size(); ++i) kernel.constexprs[i].name = "C" + std::to_string(i);
}

}  // namespace kiln::dsl
