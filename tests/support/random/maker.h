// The generator's inside: a kernel under construction, and one function a family of ops.
#pragma once

#include <optional>

#include "random/facts.h"
#include "random/generator.h"

namespace kiln::random_kernel {

using Shape = std::vector<dsl::Expr>;
using Operands = std::vector<dsl::ValueId>;
using Attrs = std::vector<dsl::Attr>;

class Maker {
 public:
  Maker(uint64_t seed, const Options& options);
  Case make();

  // Chance.
  size_t pick(size_t below) { return random() % below; }
  bool chance(int one_in) { return pick(static_cast<size_t>(one_in)) == 0; }
  template <class T>
  const T& one_of(const std::vector<T>& items) {
    return items[pick(items.size())];
  }

  // Types.
  const dsl::Type& type(dsl::ValueId id) const { return kernel.type(id); }
  std::vector<int64_t> sizes(const Shape& shape) const;
  int64_t count(const Shape& shape) const;
  bool same_sizes(const Shape& a, const Shape& b) const { return sizes(a) == sizes(b); }
  bool fits(const Shape& shape) const;
  dsl::Expr extent();
  Shape shape();                   // mostly one of the kernel's few
  Shape shape_of_rank(int least);  // of this rank or more
  dsl::ElementType element();
  dsl::ElementType int_element();    // i1 not among them
  dsl::ElementType float_element();  // f32 where the options have none
  bool has(dsl::ElementType element) const;

  // Ops. `emit` gives the first result (the others have the next numbers), kNoValue where the op has none; nothing
  // where the options do not allow the op or its result would be uncertain.
  using Made = std::optional<dsl::ValueId>;
  Made emit(dsl::OpCode code, Operands operands, Attrs attrs, std::vector<dsl::Region> regions = {});
  // Of ops that are always allowed.
  dsl::ValueId base(dsl::OpCode code, Operands operands, Attrs attrs);
  // An op with regions, whose results have these facts.
  Made emit_control(dsl::Op op, const std::vector<dsl::Type>& results, const std::vector<Fact>& result_facts);
  bool is_allowed(const dsl::Op& op) const { return !options.allowed || options.allowed(kernel, op); }
  dsl::ValueId define(const dsl::Type& type, const Fact& fact);
  // Runs `fill` on a new region whose values are hidden afterwards.
  dsl::Region region(const std::vector<dsl::Type>& args, const std::vector<Fact>& arg_facts,
                     const std::function<Operands(const Operands&)>& fill);

  // Values. A shape must not be a reference into a value's type: the list of values grows.
  dsl::ValueId value(dsl::ElementType element, const Shape& shape, Level level = Level::kAnyZero);
  dsl::ValueId tame(dsl::ElementType element, const Shape& shape, Content content);  // loaded, small
  dsl::ValueId fresh(dsl::ElementType element, const Shape& shape);
  // Any value that is no pointer: of the scope, mostly.
  dsl::ValueId anything(Level level = Level::kAnyZero);
  dsl::ValueId constant(int64_t number, dsl::ElementType element = dsl::ElementType::kI32);
  dsl::ValueId constant(const dsl::Expr& number, dsl::ElementType element);
  dsl::ValueId literal(dsl::ElementType element, uint64_t bits);
  dsl::ValueId splat(dsl::ValueId scalar, const Shape& shape);
  dsl::ValueId along(const Shape& shape, size_t axis);  // the index along an axis, i32
  dsl::ValueId index(const Shape& shape);               // row-major number of each element, i32
  dsl::ValueId mask(const Shape& shape);
  // Ints of any type in 0…count-1.
  dsl::ValueId index_below(int64_t count, const Shape& shape);
  const Fact& fact(dsl::ValueId id) const { return facts[id]; }

  // Memory. A buffer of `count` elements for each program; a scalar pointer to this program's part.
  size_t new_buffer(dsl::ElementType element, int64_t count, bool readonly, bool read, Content content);
  dsl::ValueId part_of(size_t param, int64_t count);
  dsl::ValueId load_new(dsl::ElementType element, const Shape& shape, Content content);
  // From a buffer of new data that ends where the index along an axis reaches `there`: `bound`, as far as the load's
  // mask lets it.
  dsl::ValueId load_below(dsl::ElementType element, const Shape& shape, size_t axis, dsl::ValueId bound, int64_t there,
                          Content content);
  dsl::ValueId pointers(dsl::ValueId part, const Shape& shape);  // one address a lane, no two alike
  size_t shared_buffer(dsl::ElementType element);                // read and written, kPart elements for each program
  bool store(dsl::ValueId value);
  size_t new_scalar(dsl::ElementType element, uint64_t bits);
  static constexpr int64_t kSlack = 3;

  void grow(int ops);  // that many op generators, in the region at hand

  Random random;
  const Options& options;
  dsl::Kernel kernel;
  std::vector<Input> inputs;
  World world;
  std::vector<Fact> facts;              // by value
  std::vector<dsl::ValueId> scope;      // visible values that may be used
  std::vector<dsl::Op>* ops = nullptr;  // of the region at hand
  int depth = 0;

 private:
  Made make_op(dsl::OpCode code, Operands operands, Attrs attrs, std::vector<dsl::Region> regions, bool always);
  void header();
  void sink();
  std::vector<dsl::Expr> extents_;
  std::vector<Shape> shapes_;
  std::vector<dsl::ElementType> elements_;
  std::vector<size_t> shared_;
  dsl::ValueId program_ = 0;  // number of the program, i32
  int64_t programs_ = 1;
};

}  // namespace kiln::random_kernel
