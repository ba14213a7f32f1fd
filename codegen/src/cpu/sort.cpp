// sort: row by row; keys with indices into order, then the elements by index.
#include "cpu/order_nest.h"
#include "cpu/sort_records.h"

namespace kiln::codegen::cpu {

namespace {

constexpr int kMaxWidth = 32;

}  // namespace

Result<void> lower_sort(Context& c, const Op& op) {
  const auto axis = static_cast<size_t>(std::get<int64_t>(op.attrs[0]));
  const bool descending = std::get<int64_t>(op.attrs[1]) != 0;
  const dsl::Type& keys = c.type(op.operands[0]);
  const int64_t extent = dsl::concrete_shape(keys)[axis];
  OrderNest order(c, op.operands[0], axis);
  order.nest.choose_width(op.operands, kMaxWidth);
  SortRow row(c, keys.element, extent);
  std::vector<Slot> elements, results;
  for (ValueId operand : op.operands) {
    elements.push_back(row_slot(c, c.type(operand), extent));
    results.push_back(allocate_slot(c, c.type(operand)));
  }

  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      auto x = order.evaluate(op.operands[i]);
      if (!x) return x.error();
      order.keep(elements[i], c.type(op.operands[i]), *x);
      if (i == 0) row.put(order.index(), order_keys(c.b, keys.element, descending, *x), order.index());
    }
    return {};
  };
  body.end_row = [&]() -> Result<void> {
    row.sort(c.i64(extent));
    emit_loop(
        c.b, c.i64(0), c.i64(extent), c.i64(1), "sorted", [](llvm::Instruction*) {},
        [&](Value* i) {
          Value* from = row.index_of(i);
          for (size_t k = 0; k < results.size(); ++k) {
            const dsl::Type& type = c.type(op.operands[k]);
            order.put(results[k], type, i, order.pick(elements[k], type, from));
          }
        });
    return {};
  };
  if (auto done = order.nest.walk(body, false); !done) return done;
  for (size_t i = 0; i < results.size(); ++i) c.slots[op.results[i]] = results[i];
  return {};
}

}  // namespace kiln::codegen::cpu
