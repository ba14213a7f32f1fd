// What sequences of a loop that adds up products have in common (launches/product.h, launches/stream.h): a step that
// stores partial sums in slots of the workspace, and the last one, which adds them up.
#pragma once

#include <functional>

#include "kiln/dsl/wide.h"
#include "launches/launch_sequence.h"
#include "launches/part.h"

namespace kiln::codegen {

inline constexpr size_t kFirstInit = 3;  // operands of a `for`: start, end, step, what it carries

// The first loop of the kernel that stands at top level; before and in which nothing is written; whose step is a
// constant; and which carries sums alone that products alone use and add to. Null where there is none.
const dsl::Op* find_product_loop(const dsl::Kernel& kernel);

// Scalars of one int type.
class Ints {
 public:
  Ints(dsl::OpBuilder& build, dsl::ElementType type) : build_(build), type_(type) {}
  dsl::ValueId constant(int64_t x) { return build_.constant(type_, bits_from_number(type_, x)); }
  dsl::ValueId add(dsl::ValueId a, dsl::ValueId b) { return build_.add(dsl::OpCode::kAdd, {a, b}); }
  dsl::ValueId sub(dsl::ValueId a, dsl::ValueId b) { return build_.add(dsl::OpCode::kSub, {a, b}); }
  dsl::ValueId mul(dsl::ValueId a, dsl::ValueId b) { return build_.add(dsl::OpCode::kMul, {a, b}); }
  dsl::ValueId min(dsl::ValueId a, dsl::ValueId b) { return build_.add(dsl::OpCode::kMin, {a, b}); }
  dsl::ValueId max(dsl::ValueId a, dsl::ValueId b) { return build_.add(dsl::OpCode::kMax, {a, b}); }
  // Of numbers that are not negative.
  dsl::ValueId quotient(dsl::ValueId a, dsl::ValueId b) { return build_.add(dsl::OpCode::kDiv, {a, b}); }
  dsl::ValueId rest(dsl::ValueId a, dsl::ValueId b) { return build_.add(dsl::OpCode::kRem, {a, b}); }
  dsl::ValueId quotient_up(dsl::ValueId a, dsl::ValueId b) {
    const dsl::ValueId up = min(rest(a, b), constant(1));
    return add(quotient(a, b), up);
  }
  // Any int, as one of these.
  dsl::ValueId cast(dsl::ValueId x) {
    return build_.type(x).element == type_ ? x : build_.add(dsl::OpCode::kCast, {x}, {type_});
  }

 private:
  dsl::OpBuilder& build_;
  dsl::ElementType type_;
};

// A loop whose sums are stored in parts, and the parameters of the step at hand.
struct SplitLoop {
  dsl::Op loop;
  int64_t slots;  // places for partial sums of a program
  dsl::ValueId chunk = dsl::kNoValue;
  std::vector<dsl::ValueId> pointers = {};  // where partial sums lie, one a sum
};

// Gives the sequence's last step room for the slots, and `split` its parameters.
void add_slots(LaunchSequence& sequence, SplitLoop& split);

// The assumptions that hold of a step's parameters; there are so many chunks.
void assume_params(dsl::OpBuilder& build, const SplitLoop& split, int64_t chunks);

// The number of the loop's iterations, i64.
dsl::ValueId trips_of(dsl::OpBuilder& build, const dsl::Op& loop);

// Appends the loop from one of `all` its iterations up to another one, with sums that begin at zero; i64, 0 or more.
struct Iterations {
  dsl::ValueId first, end, all;
};
void append_part(dsl::Kernel& kernel, std::vector<dsl::Op>& out, dsl::Op loop, const Iterations& part);

// Stores the loop's results in a slot, a scalar i32, behind these pointers.
void store_partials(dsl::OpBuilder& build, const SplitLoop& split, const std::vector<dsl::ValueId>& pointers,
                    dsl::ValueId slot);

// How many slots of a program are in use, an i64: the first ones. Empty: all of them.
using UsedSlots = std::function<dsl::ValueId(dsl::OpBuilder& build)>;

// The kernel with sums of the slots, in the order of their numbers, in the loop's place.
dsl::Kernel make_sums(const dsl::Kernel& source, const SplitLoop& split, const UsedSlots& used = {});

// Where all tiles that the last step stores have as many rows, programs of their own store some rows each; of a single
// row some columns.
void store_in_parts(LaunchSequence& sequence);

}  // namespace kiln::codegen
