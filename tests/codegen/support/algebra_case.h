// Tests of ops that combine or order elements: one kernel loads its operands, applies several ops to them and stores
// each result into a buffer of its own; compiled and interpreted, the buffers must agree.
#pragma once

#include <span>

#include "differential.h"

namespace kiln::test {

std::vector<dsl::ElementType> all_element_types();
// All of a list for f32, and turn by turn some of it for each other type, so that together they see all of it.
std::vector<int64_t> extents_for(dsl::ElementType type);  // of an axis
TextKernel::Shape shape_for(dsl::ElementType type);       // with short axes, and of extent 1
std::vector<std::string> targets_for(dsl::ElementType type);
std::string type_name(dsl::ElementType type);
int64_t elements_of(const TextKernel::Shape& shape);
// A shape without one of its axes, or with another extent there.
TextKernel::Shape without_axis(TextKernel::Shape shape, size_t axis);
TextKernel::Shape with_extent(TextKernel::Shape shape, size_t axis, int64_t extent);

class AlgebraCase {
 public:
  using Shape = TextKernel::Shape;

  struct Input {
    dsl::ElementType type;
    TestArgument data;  // of the shape's elements
    // Where an element's index along some axis is not below the bound, it is this; "" loads all.
    std::string other;
  };
  struct Result {
    dsl::ElementType type;
    Shape shape;  // empty: a scalar
    Match match = kExact;
  };

  // Operands are %x0, %x1, …; `bounds` along each axis, for inputs that are masked.
  AlgebraCase(Shape shape, std::vector<Input> inputs, std::vector<int64_t> bounds = {});
  // `expression` over the operands, without results; a region may follow it, in whose names `$` is a number of its own.
  void apply(const std::string& expression, const std::vector<Result>& results);
  void check(const std::vector<std::string>& targets = {""});

 private:
  struct Application {
    std::string expression;
    std::vector<Result> results;
  };
  void check_some(std::span<const Application> applications, const std::vector<std::string>& targets);

  Shape shape_;
  std::vector<Input> inputs_;
  std::vector<int64_t> bounds_;
  std::vector<Application> applications_;
};

// Small ints and few distinct floats: many ties, the special values among them.
TestArgument tied_buffer(dsl::ElementType type, int64_t count, uint32_t seed);

}  // namespace kiln::test
