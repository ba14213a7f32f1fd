// CBOR records to IR. The bytes may be anything: each field is checked for kind and range, and types come from
// infer_types, so that a value never has a type that its op does not give.
#include <limits>

#include "binary/binary_format.h"
#include "ir/kernel_limits.h"

namespace kiln::dsl {

const Json& field(const Json& array, size_t index) {
  if (!array.is_array() || index >= array.size()) throw BadBytes{"a record is too short"};
  return array[index];
}

const Json& as_array(const Json& value, const char* what, size_t most) {
  if (!value.is_array()) throw BadBytes{std::string(what) + " is not a list"};
  if (value.size() > most) throw BadBytes{std::string(what) + " is too long"};
  return value;
}

int64_t as_int(const Json& value, const char* what) {
  if (!value.is_number_integer()) throw BadBytes{std::string(what) + " is not an integer"};
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    throw BadBytes{std::string(what) + " is out of range"};
  }
  return value.get<int64_t>();
}

uint64_t as_uint(const Json& value, const char* what, uint64_t most) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > most) {
    throw BadBytes{std::string(what) + " is not a number in range"};
  }
  return value.get<uint64_t>();
}

bool as_bool(const Json& value, const char* what) {
  if (!value.is_boolean()) throw BadBytes{std::string(what) + " is not true or false"};
  return value.get<bool>();
}

const std::string& as_text(const Json& value, const char* what) {
  if (!value.is_string()) throw BadBytes{std::string(what) + " is not text"};
  return value.get_ref<const std::string&>();
}

namespace {

ElementType as_element(const Json& value) {
  return static_cast<ElementType>(as_uint(value, "an element type", kElementTypeCount - 1));
}

class Reader {
 public:
  explicit Reader(Kernel& kernel) : kernel_(kernel) {}

  void header(const Json& record) {
    if (as_text(field(record, 0), "the tag") != kCanonicalTag) throw BadBytes{"the kernel is of another version"};
    kernel_.name = as_text(field(record, 1), "the kernel's name");
    for (const Json& param : as_array(field(record, 2), "the parameters", kMaxListed)) {
      Type type{as_element(field(param, 0)), as_bool(field(param, 1), "a pointer flag"), {}};
      const bool readonly = as_bool(field(param, 2), "a readonly flag");
      const bool may_alias = as_bool(field(param, 3), "a may_alias flag");
      kernel_.params.push_back({"", type, readonly, define(type), may_alias});
    }
    kernel_.constexprs.resize(as_uint(field(record, 3), "the number of constexprs", kMaxListed));
    const Json& grid = field(record, 4);
    for (size_t axis = 0; axis < 3; ++axis) kernel_.grid[axis] = decode_expr(field(grid, axis), kernel_);
    for (size_t i = 0; i < kernel_options().size(); ++i) {
      const KernelOption& option = kernel_options()[i];
      const Json& value = field(field(record, 5), i);
      const bool is_word = !option.word.empty() && value == option.word;
      option.set(kernel_.options, is_word ? option.word : as_bool(value, "an option") ? "true" : "false");
    }
  }

  void ops(const Json& list, std::vector<Op>& out, int depth) {
    if (depth > kMaxRegionDepth) throw BadBytes{"regions are nested too deeply"};
    for (const Json& item : as_array(list, "a list of ops", kMaxOps)) {
      if (++op_count_ > kMaxOps) throw BadBytes{"the kernel has too many ops"};
      out.push_back(op(item, depth));
    }
  }

 private:
  ValueId define(const Type& type) {
    kernel_.values.push_back({type, ""});
    return static_cast<ValueId>(kernel_.values.size() - 1);
  }

  Op op(const Json& record, int depth) {
    Op out{static_cast<OpCode>(as_uint(field(record, 0), "an op's code", kOpCount - 1)), {}, {}, {}, {}, {}};
    const OpInfo& table = info(out.code);
    std::vector<Type> operands;
    for (const Json& operand : as_array(field(record, 1), "operands", kMaxListed)) {
      // Numbers are given in the order of definition, so this is also the check that a definition comes first.
      if (kernel_.values.empty()) throw BadBytes{"an operand without any value"};
      out.operands.push_back(static_cast<ValueId>(as_uint(operand, "an operand", kernel_.values.size() - 1)));
      operands.push_back(kernel_.type(out.operands.back()));
    }
    const Json& attrs = as_array(field(record, 2), "attributes", kMaxListed);
    if (attrs.size() != table.attrs.size()) throw BadBytes{table.name + " has the wrong number of attributes"};
    for (size_t i = 0; i < attrs.size(); ++i) out.attrs.push_back(attr(table.attrs[i], attrs[i]));

    if (auto fits = check_arity(out.code, operands.size(), out.attrs); !fits) throw BadBytes{fits.error().message};
    const size_t result_count = as_uint(field(record, 3), "the number of results", kMaxListed);
    if (out.code == OpCode::kIf) {
      branch(record, result_count, operands, out, depth);
      return out;
    }
    const std::vector<Type> types = infer(out, operands, {}, result_count);
    for (const Type& type : types) out.results.push_back(define(type));
    regions(record, operands, out, depth);
    return out;
  }

  std::vector<Type> infer(const Op& op, const std::vector<Type>& operands, const std::vector<Type>& yields,
                          size_t result_count) const {
    auto types = infer_types(op.code, operands, op.attrs, kernel_.expr_names(), yields);
    if (!types) throw BadBytes{types.error().message};
    if (types->size() != result_count) throw BadBytes{info(op.code).name + " has the wrong number of results"};
    return std::move(*types);
  }

  // The results of `if` are numbered before its regions, which say what they are.
  void branch(const Json& record, size_t result_count, const std::vector<Type>& operands, Op& out, int depth) {
    for (size_t i = 0; i < result_count; ++i) out.results.push_back(define(Type{}));
    regions(record, operands, out, depth);
    std::vector<Type> yields;
    const std::vector<Op>& first = out.regions[0].ops;
    if (!first.empty() && first.back().code == OpCode::kYield) {
      for (ValueId id : first.back().operands) yields.push_back(kernel_.type(id));
    }
    const std::vector<Type> types = infer(out, operands, yields, result_count);
    for (size_t i = 0; i < types.size(); ++i) kernel_.values[out.results[i]].type = types[i];
  }

  void regions(const Json& record, const std::vector<Type>& operands, Op& out, int depth) {
    const std::vector<RegionTypes> expected = region_types(out.code, operands, out.attrs);
    if (record.size() != 4 + expected.size()) throw BadBytes{info(out.code).name + " has the wrong number of regions"};
    for (size_t i = 0; i < expected.size(); ++i) {
      const Json& region = field(record, 4 + i);
      if (as_uint(field(region, 0), "the number of arguments", 2 * kMaxListed) != expected[i].args.size()) {
        throw BadBytes{"a region has the wrong number of arguments"};
      }
      Region inner;
      for (const Type& type : expected[i].args) inner.args.push_back(define(type));
      ops(field(region, 1), inner.ops, depth + 1);
      out.regions.push_back(std::move(inner));
    }
  }

  Attr attr(const AttrInfo& expected, const Json& value) {
    switch (expected.kind) {
      case AttrKind::kInt:
      case AttrKind::kFlag:
      case AttrKind::kEnum:
        return as_int(value, "an attribute");
      case AttrKind::kExpr:
        return decode_expr(value, kernel_);
      case AttrKind::kString:
        return as_text(value, "an attribute");
      case AttrKind::kElement:
        return as_element(field(value, 1));
      case AttrKind::kShape: {
        std::vector<Expr> list;
        for (const Json& item : as_array(value, "a list", kMaxShape)) list.push_back(decode_expr(item, kernel_));
        return list;
      }
      case AttrKind::kLiteral:
        break;
    }
    // A literal is [1, bits]; the list of an expression begins with a list.
    if (value.is_array() && !value.empty() && value[0].is_number()) {
      return Literal{as_uint(field(value, 1), "a literal", std::numeric_limits<uint64_t>::max())};
    }
    return decode_expr(value, kernel_);
  }

  Kernel& kernel_;
  size_t op_count_ = 0;
};

}  // namespace

Kernel decode_canonical(const Json& record) {
  Kernel kernel;
  Reader reader(kernel);
  reader.header(record);
  reader.ops(field(record, 6), kernel.body.ops, 0);
  return kernel;
}

}  // namespace kiln::dsl
