// constant, full, extent, iota, philox.
#include "infer/rules.h"

namespace kiln::graph {
namespace {

// Bits beyond the element's width are none of its values.
bool has_bits(ElementType element, uint64_t bits) {
  const int width = dsl::info(element).bits;
  return width == 64 || bits >> width == 0;
}

Result<Types> infer_constant(const Application& app) {
  const ElementType element = element_attr(app.attrs, 0);
  const Extents& shape = shape_attr(app.attrs, 1);
  const auto& data = std::get<std::vector<uint64_t>>(app.attrs[2]);
  KILN_CHECK(app.fits(shape));
  uint64_t count = 1;
  for (const Expr& extent : shape) {
    const auto constant = extent.as_constant();
    if (!constant) return app.fail("the shape " + app.text(shape) + " must be of numbers");
    if (__builtin_mul_overflow(count, static_cast<uint64_t>(*constant), &count)) count = ~uint64_t{0};
  }
  if (count != data.size()) {
    return app.fail(std::to_string(data.size()) + " elements for the shape " + app.text(shape));
  }
  for (const uint64_t bits : data) {
    if (!has_bits(element, bits))
      return app.fail("an element has more bits than " + std::string(dsl::info(element).name));
  }
  return Types{{element, shape}};
}

}  // namespace

Result<Types> infer_make(const Application& app) {
  if (app.op == TensorOp::kConstant) return infer_constant(app);
  if (app.op == TensorOp::kPhilox) {
    for (size_t i = 0; i < 2; ++i) {
      KILN_CHECK(app.element_is(i, ElementType::kU64));
      KILN_CHECK(app.rank_is(i, 0));
    }
    KILN_CHECK(app.fits(shape_attr(app.attrs, 0)));
    return Types{{ElementType::kU32, shape_attr(app.attrs, 0)}};
  }
  const ElementType element = element_attr(app.attrs, 0);
  if (app.op == TensorOp::kExtent) return Types{{element, {}}};
  const Extents& shape = shape_attr(app.attrs, 1);
  KILN_CHECK(app.fits(shape));
  if (app.op == TensorOp::kIota) {
    const int64_t axis = int_attr(app.attrs, 2);
    if (axis < 0 || axis >= static_cast<int64_t>(shape.size())) {
      return app.fail("axis " + std::to_string(axis) + " of the shape " + app.text(shape));
    }
    if (element == ElementType::kI1) return app.fail("an index is no i1");
  } else if (!has_bits(element, std::get<Literal>(app.attrs[2]).bits)) {
    return app.fail("the value has more bits than " + std::string(dsl::info(element).name));
  }
  return Types{{element, shape}};
}

}  // namespace kiln::graph
