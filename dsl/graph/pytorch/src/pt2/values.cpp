#include "pt2/values.h"

#include <cmath>
#include <limits>

namespace kiln::graph::pt2 {
namespace {

double float_of(const json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string& word = text(value, "as_float");
  if (word == "Infinity") return std::numeric_limits<double>::infinity();
  if (word == "-Infinity") return -std::numeric_limits<double>::infinity();
  if (word == "NaN") return std::numeric_limits<double>::quiet_NaN();
  bad("`" + word + "` is no float");
}

AtenName name_of(const json& tensor, const Renamed& renamed) {
  const std::string& name = text_field(tensor, "name");
  const auto found = renamed.find(name);
  return {found == renamed.end() ? name : found->second};
}

AtenArgument int_of(const json& value, const Sizes& sizes) {
  const auto [tag, inner] = tagged(value);
  if (tag == "as_int") return {integer(inner, "as_int")};
  if (tag != "as_name") bad("an int that is `" + tag + "`");
  const auto found = sizes.ints.find(text(inner, "as_name"));
  if (found == sizes.ints.end()) bad("no size is called `" + inner.get<std::string>() + "`");
  if (const auto known = found->second.expr().as_constant()) return {*known};
  return {found->second};
}

AtenArgument optional_of(const json& value, const Renamed& renamed) {
  const auto [tag, inner] = tagged(value);
  if (tag == "as_none") return {};
  if (tag == "as_tensor") return {name_of(inner, renamed)};
  bad("an optional tensor that is `" + tag + "`");
}

template <class Read>
AtenArgument list_of(const json& values, const Read& read) {
  if (!values.is_array()) bad("a list of arguments is none");
  AtenList out;
  for (const json& value : values) out.push_back(read(value));
  return {std::move(out)};
}

}  // namespace

ElementType element_type(const json& value) {
  using enum ElementType;
  switch (integer(value, "dtype")) {
    case 1:
      return kU8;
    case 2:
      return kI8;
    case 3:
      return kI16;
    case 4:
      return kI32;
    case 5:
      return kI64;
    case 6:
      return kF16;
    case 7:
      return kF32;
    case 8:
      return kF64;
    case 9:
    case 10:
    case 11:
      bad("there are no complex numbers in a graph");
    case 12:
      return kI1;
    case 13:
      return kBF16;
    case 28:
      return kU16;
    case 29:
      return kF8E4M3;
    case 30:
      return kF8E5M2;
    case 34:
      return kU32;
    case 35:
      return kU64;
    default:
      bad("there is no element type for PyTorch's number " + value.dump());
  }
}

Dim size_of(const json& value, const SymbolRanges& ranges) {
  const auto [tag, inner] = tagged(value);
  if (tag == "as_int") return integer(inner, "as_int");
  if (tag != "as_expr") bad("a size that is `" + tag + "`");
  auto out = read_dim(text_field(inner, "expr_str"), ranges);
  if (!out) bad(out.error().message);
  return std::move(*out);
}

bool is_symbolic(const json& argument) {
  const std::string& tag = tagged(argument).tag;
  return tag.starts_with("as_sym_") || tag == "as_int" || tag == "as_float" || tag == "as_bool";
}

AtenArgument argument_of(const json& argument, const Sizes& sizes, const Renamed& renamed) {
  const auto [tag, value] = tagged(argument);
  const auto integers = [](const json& x) { return AtenArgument{integer(x, "as_ints")}; };
  const auto floats = [](const json& x) { return AtenArgument{float_of(x)}; };
  const auto booleans = [](const json& x) { return AtenArgument{truth(x, "as_bools")}; };
  const auto tensors = [&](const json& x) { return AtenArgument{name_of(x, renamed)}; };
  // Without a meaning in a graph.
  if (tag == "as_none" || tag == "as_device" || tag == "as_layout" || tag == "as_memory_format") return {};
  if (tag == "as_bool") return {truth(value, "as_bool")};
  if (tag == "as_int") return {integer(value, "as_int")};
  if (tag == "as_float") return {float_of(value)};
  if (tag == "as_string") return {text(value, "as_string")};
  if (tag == "as_scalar_type") return {element_type(value)};
  if (tag == "as_tensor") return tensors(value);
  if (tag == "as_optional_tensor") return optional_of(value, renamed);
  if (tag == "as_sym_int") return int_of(value, sizes);
  if (tag == "as_ints") return list_of(value, integers);
  if (tag == "as_floats") return list_of(value, floats);
  if (tag == "as_bools") return list_of(value, booleans);
  if (tag == "as_tensors") return list_of(value, tensors);
  if (tag == "as_sym_ints") return list_of(value, [&](const json& x) { return int_of(x, sizes); });
  if (tag == "as_optional_tensors") return list_of(value, [&](const json& x) { return optional_of(x, renamed); });
  if (tag == "as_sym_float" || tag == "as_sym_bool") {
    const auto [known, inner] = tagged(value);
    if (known == "as_float") return {float_of(inner)};
    if (known == "as_bool") return {truth(inner, "as_bool")};
    bad("`" + text(inner, "as_name") +
        "` is computed of sizes when the program runs, which a graph does for ints alone");
  }
  bad("an argument that is `" + tag + "`");
}

}  // namespace kiln::graph::pt2
