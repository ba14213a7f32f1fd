// Ops of one element at a time, composites among them: one shape in and out.
#include "infer/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// What an op takes beside equal element types.
enum class Takes : uint8_t { kNumbers, kFloats, kInts, kIntsAndBools, kAny };

Takes takes(TensorOp op) {
  if (info(op).has(kMath) || info(op).has(kComposite)) return Takes::kFloats;
  switch (op) {
    case kMulhi:
      return Takes::kInts;
    case kFma:
      return Takes::kFloats;
    case kAnd:
    case kOr:
    case kXor:
    case kNot:
      return Takes::kIntsAndBools;
    case kShl:
    case kShr:
      return Takes::kInts;
    case kCmp:
    case kStopGradient:
      return Takes::kAny;
    default:
      return Takes::kNumbers;
  }
}

Result<void> check_element(const Application& app, Takes wanted) {
  const ElementType element = app.in(0).element;
  const bool is_bool = element == ElementType::kI1;
  bool fine = true;
  const char* words = "";
  switch (wanted) {
    case Takes::kNumbers:
      fine = !is_bool;
      words = "numbers: cast i1 first";
      break;
    case Takes::kFloats:
      fine = dsl::is_float(element);
      words = "floats";
      break;
    case Takes::kInts:
      fine = dsl::is_int(element) && !is_bool;
      words = "ints";
      break;
    case Takes::kIntsAndBools:
      fine = dsl::is_int(element);
      words = "ints or i1";
      break;
    case Takes::kAny:
      break;
  }
  if (fine) return {};
  return app.fail("takes " + std::string(words) + ", not " + app.text(app.in(0)));
}

Result<void> same_types(const Application& app, size_t first) {
  const TensorType& type = app.in(first);
  for (size_t i = first + 1; i < app.operands.size(); ++i) {
    const TensorType& other = app.in(i);
    if (&other == &type) continue;
    if (other.element != type.element) {
      return app.fail("operands of " + app.text(type) + " and " + app.text(other) + ": element types differ");
    }
    KILN_CHECK(app.same_shape(type.shape, other.shape, app.operand_name(first) + " and " + app.operand_name(i)));
  }
  return {};
}

Result<Types> infer_convert(const Application& app) {
  const ElementType to = element_attr(app.attrs, 0), from = app.in(0).element;
  if (app.op == kBitcast && (dsl::info(to).bits != dsl::info(from).bits)) {
    return app.fail(app.text(app.in(0)) + " has elements of another width than " + std::string(dsl::info(to).name));
  }
  return Types{{to, app.in(0).shape}};
}

}  // namespace

Result<Types> infer_elementwise(const Application& app) {
  if (app.op == kCast || app.op == kBitcast) return infer_convert(app);
  if (app.op == kSelect) {
    KILN_CHECK(app.element_is(0, ElementType::kI1));
    KILN_CHECK(same_types(app, 1));
    KILN_CHECK(app.same_shape(app.in(0).shape, app.in(1).shape, "cond and a"));
    return Types{app.in(1)};
  }
  KILN_CHECK(check_element(app, takes(app.op)));
  KILN_CHECK(same_types(app, 0));
  if (app.op == kClamp && float_attr(app.attrs, 0) > float_attr(app.attrs, 1)) return app.fail("low is above high");
  const bool tests = app.op == kCmp || app.op == kSignbit || app.op == kIsnan || app.op == kIsinf;
  return Types{{tests ? ElementType::kI1 : app.in(0).element, app.in(0).shape}};
}

}  // namespace kiln::graph
