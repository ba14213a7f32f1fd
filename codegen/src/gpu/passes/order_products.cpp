#include "gpu/passes/order_products.h"

#include <algorithm>
#include <map>

#include "kiln/dsl/traits.h"

namespace kiln::codegen::gpu {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::ValueId;

bool is_product(const Op& op) { return op.code == OpCode::kDot; }

bool may_move(const Op& op) {
  return op.regions.empty() && (op.code == OpCode::kLoad || op.code == OpCode::kYield || is_pure(op));
}

class Order {
 public:
  explicit Order(const std::vector<Op>& ops) : ops_(ops), goes_first_(ops.size()) {
    for (size_t i = 0; i < ops.size(); ++i) {
      for (ValueId id : ops[i].results) place_of_[id] = i;
    }
  }

  // Nothing where it stays as it is.
  std::vector<Op> arranged() {
    std::vector<size_t> products;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (is_product(ops_[i])) products.push_back(i);
    }
    if (products.size() < 2 || !std::ranges::all_of(ops_, may_move)) return {};
    for (size_t product : products) note_operands(product);
    const auto is_needed = [&](size_t i) { return goes_first_[i] || first_reader(i) + 1 >= ops_.size(); };
    if (std::ranges::any_of(products, is_needed)) return {};
    std::ranges::stable_sort(products, {}, [&](size_t i) { return first_reader(i); });
    std::vector<Op> out;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (goes_first_[i]) out.push_back(ops_[i]);
    }
    for (size_t product : products) out.push_back(ops_[product]);
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!goes_first_[i] && !is_product(ops_[i])) out.push_back(ops_[i]);
    }
    return out;
  }

 private:
  void note_operands(size_t of) {
    for (ValueId id : ops_[of].operands) {
      const auto made = place_of_.find(id);
      if (made == place_of_.end() || goes_first_[made->second]) continue;
      goes_first_[made->second] = true;
      note_operands(made->second);
    }
  }

  // The yield is the last op.
  size_t first_reader(size_t product) const {
    const ValueId result = ops_[product].results[0];
    const auto reads = [&](const Op& op) { return std::ranges::find(op.operands, result) != op.operands.end(); };
    return static_cast<size_t>(std::ranges::find_if(ops_, reads) - ops_.begin());
  }

  const std::vector<Op>& ops_;
  std::vector<bool> goes_first_;  // what products need
  std::map<ValueId, size_t> place_of_;
};

}  // namespace

dsl::Kernel order_products(dsl::Kernel kernel) {
  dsl::for_each_region_postorder(kernel, [](dsl::Region& region) {
    if (std::vector<Op> ordered = Order(region.ops).arranged(); !ordered.empty()) region.ops = std::move(ordered);
  });
  return kernel;
}

}  // namespace kiln::codegen::gpu
