// Ints as linear forms: what the host knows at a launch, plus scalars of the program and coordinates in the tile, each
// times what the host knows.
//
//   %r = mul %pid, %c64                         64·pid
//   %i = add (splat %r), (arange 0…64)          64·pid + i0
//   %o = mul (expand_dims %i), (splat %ld)      64·ld·pid + ld·i0
//
// Index arithmetic that reaches memory is taken not to wrap (docs/reference/ops.md), so casts between ints are looked
// through.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/wide.h"
#include "passes/axis_info.h"

namespace kiln::codegen::gpu {

struct Linear {
  dsl::Expr host;                             // over scalar parameters
  std::map<dsl::ValueId, dsl::Expr> program;  // scalar ints and their factors, none of them 0
  std::vector<dsl::Expr> axes;                // factors of the coordinates, by axis of the tile

  // Nothing of it depends on the place in the tile; … or on the program.
  bool is_uniform() const;
  bool is_host() const { return program.empty() && is_uniform(); }
  bool operator==(const Linear&) const = default;
};
Linear operator+(const Linear& a, const Linear& b);
Linear operator-(const Linear& a, const Linear& b);
Linear operator*(const Linear& a, const dsl::Expr& factor);
// Whether the device can compute it, of parameters; … of a form all factors but those of coordinates.
bool is_polynomial(const dsl::Expr& expr);
bool is_polynomial(const Linear& form);
// "64*%pid + M + i0"
std::string to_string(const Linear& form, const dsl::Kernel& kernel);

// The forms of a kernel's ints, and what is known of host expressions and forms.
class LinearForms {
 public:
  // Both outlive this. `info`: axis_info of the kernel, of indices.
  LinearForms(const dsl::Kernel& kernel, const std::vector<AxisInfo>& info);

  // Nothing where the value has no such form.
  std::optional<Linear> of(dsl::ValueId id);
  const dsl::Op* definition(dsl::ValueId id) const { return definition_[id]; }
  const AxisInfo& info(dsl::ValueId id) const { return info_[id]; }

  struct Range {
    dsl::Wide low, high;
  };
  Range range(const dsl::Expr& expr) const;
  // Of a uniform form. Where a scalar of the kernel is that form, or differs by a constant, what is known of it counts.
  Range range(const Linear& form) const;
  // What every value is a multiple of; 0 of what is 0. Powers of two up to 2^20.
  int64_t multiple_of(const dsl::Expr& expr) const;
  int64_t multiple_of(const Linear& form) const;

 private:
  std::optional<Linear> compute(dsl::ValueId id, const dsl::Op& op);
  std::optional<Linear> compute_scalar(const dsl::Op& op);
  std::optional<Linear> reordered(const dsl::Op& op);
  Range range(const dsl::Atom& atom) const;
  // The scalars that have been asked for and differ from the form by a constant, which `see` is told.
  void for_each_equal(const Linear& form, const std::function<void(const AxisInfo& info, int64_t distance)>& see) const;

  const dsl::Kernel& kernel_;
  const std::vector<AxisInfo>& info_;
  std::vector<const dsl::Op*> definition_;               // by value; null for parameters and region arguments
  std::map<dsl::ValueId, std::optional<Linear>> forms_;  // those asked for
};

}  // namespace kiln::codegen::gpu
