#include "kiln/target/op_form.h"

#include <algorithm>

#include "kiln/dsl/kept.h"

namespace kiln::target {
namespace {

using dsl::Attr;
using dsl::ElementType;
using dsl::Expr;
using dsl::OpCode;
using dsl::OpFamily;
using dsl::scalar_type;
using dsl::tile_type;
using dsl::Type;

// The ops whose first attribute chooses code. (That of a comparison, and a load's hint, make no difference.)
bool has_choice(OpCode op) {
  switch (op) {
    case OpCode::kMath:
    case OpCode::kCast:
    case OpCode::kAtomicRmw:
    case OpCode::kReduceTile:
    case OpCode::kDot:
    case OpCode::kReduce:
    case OpCode::kScan:
      return true;
    default:
      return false;
  }
}

int64_t choices_of(OpCode op) {
  if (!has_choice(op)) return 1;
  const dsl::AttrInfo& attr = dsl::info(op).attrs[0];
  return attr.kind == dsl::AttrKind::kElement ? dsl::kElementTypeCount : static_cast<int64_t>(attr.values.size());
}

std::vector<OpForm> all_forms() {
  std::vector<OpForm> out;
  for (const dsl::OpInfo& op : dsl::op_table()) {
    for (int64_t choice = 0; choice < choices_of(op.code); ++choice) out.push_back({op.code, choice});
  }
  return out;
}

constexpr int64_t kLanes = 256, kSide = 16, kBlock = 32, kProduct = 64, kScaledK = 128, kNumbersOfScale = 32;

Type pointers(ElementType element, std::vector<Expr> shape) { return {element, true, std::move(shape)}; }
Type view(ElementType element, std::vector<Expr> block) { return {element, false, std::move(block), true}; }

using Operands = std::vector<Type>;

Operands memory_operands(OpCode op, ElementType element) {
  const Type places = pointers(element, {kLanes}), value = tile_type(element, {kLanes});
  switch (op) {
    case OpCode::kAddptr:
      return {places, tile_type(ElementType::kI32, {kLanes})};
    case OpCode::kLoad:
      return {places};
    case OpCode::kAtomicCas:
      return {places, value, value};
    default:  // store, atomic_rmw
      return {places, value};
  }
}

Operands described_operands(OpCode op, ElementType element) {
  const Type index = scalar_type(ElementType::kI32), block = view(element, {kBlock, kBlock});
  switch (op) {
    case OpCode::kDescriptor:
      return {pointers(element, {}), index, index, index};
    case OpCode::kLoadTile:
      return {block, index, index};
    case OpCode::kGatherRows:
      return {view(element, {1, kBlock}), tile_type(ElementType::kI32, {kSide}), index};
    default:  // store_tile, reduce_tile
      return {block, tile_type(element, block.shape), index, index};
  }
}

// Large enough for whole matrix instructions of every target.
Operands dot_operands(OpCode op, ElementType element) {
  if (op == OpCode::kDotScaled) {
    const int64_t bytes = element == ElementType::kU8 ? kScaledK / 2 : kScaledK;
    const Type scales = tile_type(ElementType::kU8, {kProduct, kScaledK / kNumbersOfScale});
    return {tile_type(element, {kProduct, bytes}), scales, tile_type(element, {bytes, kProduct}), scales,
            tile_type(ElementType::kF32, {kProduct, kProduct})};
  }
  const ElementType sum = dsl::is_int(element)           ? ElementType::kI32
                          : element == ElementType::kF64 ? element
                                                         : ElementType::kF32;
  // All have so much shared memory. As many rows as the largest instruction multiplies.
  const int64_t side = element == ElementType::kF64 ? kProduct / 2 : kProduct;
  const int64_t rows = element == ElementType::kF64 ? side : 2 * kProduct;
  return {tile_type(element, {rows, side}), tile_type(element, {side, side}), tile_type(sum, {rows, side})};
}

Operands control_operands(OpCode op, ElementType element) {
  const Type index = scalar_type(ElementType::kI32), value = tile_type(element, {kLanes});
  if (op == OpCode::kFor) return {index, index, index, value};
  if (op == OpCode::kIf) return {scalar_type(ElementType::kI1)};
  return {value};
}

Operands operands_of(const OpForm& form, ElementType element) {
  const Type value = tile_type(element, {kLanes});
  switch (form.op) {
    case OpCode::kSplat:
      return {scalar_type(element)};
    case OpCode::kBroadcast:
      return {tile_type(element, {1, kLanes})};
    case OpCode::kPermute:
      return {tile_type(element, {kSide, kSide})};
    case OpCode::kSplit:
      return {tile_type(element, {kLanes, 2})};
    case OpCode::kGather:
      return {value, tile_type(ElementType::kI32, {kLanes})};
    case OpCode::kSelect:
      return {tile_type(ElementType::kI1, {kLanes}), value, value};
    case OpCode::kMath:
      return Operands(static_cast<size_t>(dsl::math_arity(static_cast<dsl::MathFn>(form.choice))), value);
    case OpCode::kCast:  // without random words
    case OpCode::kSort:  // without values
      return {value};
    default:
      break;
  }
  switch (dsl::info(form.op).family) {
    case OpFamily::kMemory:
    case OpFamily::kAtomic:
      return memory_operands(form.op, element);
    case OpFamily::kDescribed:
      return described_operands(form.op, element);
    case OpFamily::kDot:
      return dot_operands(form.op, element);
    case OpFamily::kControl:
      return control_operands(form.op, element);
    default:
      return Operands(dsl::info(form.op).operands.size(), value);
  }
}

// An element type of the same width, another one where there is one.
ElementType other_type(ElementType element) {
  for (int i = dsl::kElementTypeCount - 1; i >= 0; --i) {
    const auto other = static_cast<ElementType>(i);
    if (other != element && dsl::info(other).bits == dsl::info(element).bits) return other;
  }
  return element;
}

// So many elements of inline assembly fill words of 32 bits.
int64_t pack_of(ElementType element) { return std::max(1, 4 / dsl::info(element).bytes); }

// What the op's attributes are beside the choice and those that have defaults.
std::vector<Attr> attrs_of(const OpForm& form, ElementType element) {
  const auto number = [](int64_t x) { return Attr(Expr(x)); };
  const auto shape = [](std::vector<Expr> extents) { return Attr(std::move(extents)); };
  switch (form.op) {
    case OpCode::kConstant:
      return {dsl::Literal{0}, element};
    case OpCode::kArange:
      return {number(0), number(kLanes)};
    case OpCode::kSplat:
      return {shape({kLanes})};
    case OpCode::kBroadcast:
      return {shape({4, kLanes})};
    case OpCode::kReshape:
      return {shape({kSide, kSide})};
    case OpCode::kPermute:
      return {shape({1, 0})};
    case OpCode::kSlice:
      return {int64_t{0}, number(0), number(kLanes / 2)};
    case OpCode::kCmp:
      return {static_cast<int64_t>(dsl::Predicate::kLt)};
    case OpCode::kCast:
      return {static_cast<ElementType>(form.choice)};
    case OpCode::kBitcast:
      return {other_type(element)};
    case OpCode::kDescriptor:
      return {shape({kBlock, kBlock}), int64_t{0}};
    case OpCode::kTopk:
      return {number(4), int64_t{0}};
    case OpCode::kHistogram:
      return {number(kSide)};
    case OpCode::kReduce:
    case OpCode::kScan:
      return {form.choice, int64_t{0}};
    case OpCode::kRequire:
      return {number(1), std::string()};
    case OpCode::kAssert:
    case OpCode::kPrint:
      return {std::string()};
    case OpCode::kInlineAsm:
      return {std::string(), std::string("=r,r"), pack_of(element), element};
    case OpCode::kProgramId:
    case OpCode::kNumPrograms:
    case OpCode::kExpandDims:
    case OpCode::kCat:
    case OpCode::kGather:
    case OpCode::kSort:
      return {int64_t{0}};  // axis
    default:
      return has_choice(form.op) ? std::vector<Attr>{form.choice} : std::vector<Attr>{};
  }
}

// "takes floats only" of "fma: takes floats only (operands: …)".
std::string reason_of(const std::string& message) {
  const size_t begin = message.find(": ");
  const size_t first = begin == std::string::npos ? 0 : begin + 2;
  return message.substr(first, message.find(" (operands") - first);
}

// Ops that mention no operand's type are of the type of their result.
bool is_of_i32(OpCode op) { return op == OpCode::kProgramId || op == OpCode::kNumPrograms || op == OpCode::kArange; }

}  // namespace

std::span<const OpForm> op_forms() {
  static const dsl::Kept forms = all_forms();
  return *forms;
}

std::string to_string(const OpForm& form) {
  const dsl::OpInfo& op = dsl::info(form.op);
  if (!has_choice(form.op)) return op.name;
  if (form.op == OpCode::kCast) {
    return op.name + " " + std::string(dsl::info(static_cast<ElementType>(form.choice)).name);
  }
  return op.name + " " + op.attrs[0].values[static_cast<size_t>(form.choice)];
}

OpForm form_of(const dsl::Op& op) {
  if (!has_choice(op.code)) return {op.code};
  const auto* type = std::get_if<ElementType>(&op.attrs[0]);
  return {op.code, type != nullptr ? static_cast<int64_t>(*type) : dsl::int_attr(op, 0)};
}

ElementType element_of(const dsl::Kernel& kernel, const dsl::Op& op) {
  const size_t operand = op.code == OpCode::kSelect ? 1 : op.code == OpCode::kFor ? 3 : 0;
  if (operand < op.operands.size()) return kernel.type(op.operands[operand]).element;
  return op.results.empty() ? ElementType::kI32 : kernel.type(op.results[0]).element;
}

Result<OpInstance> instance_of(const OpForm& form, ElementType element) {
  if (is_of_i32(form.op) && element != ElementType::kI32) return error(ErrorCode::kVerifyFailed, "is i32");
  OpInstance out{operands_of(form, element), dsl::with_default_attrs(form.op, attrs_of(form, element))};
  auto types = dsl::infer_types(form.op, out.operands, out.attrs, {}, {tile_type(element, {kLanes})});
  if (!types) return error(ErrorCode::kVerifyFailed, reason_of(types.error().message));
  return out;
}

}  // namespace kiln::target
