// The arguments of one ATen call, by name: as the kinds that a function asks for. What is left out, and None, has the
// default that the function gives; without one it is an error. After an error everything is harmless.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "aten/import/promote.h"
#include "aten/import/values.h"
#include "kiln/graph/aten.h"
#include "trace/trace.h"

namespace kiln::graph::aten {

// Where the random numbers of a call begin.
struct Random {
  Tensor seed, offset;  // u64[]
};

class Arguments {
 public:
  // What a call sees of the program around it.
  struct Around {
    Trace& trace;
    Values& values;
    Random random;
    Dim words_drawn = 0;  // by the calls in front, of four words each
  };
  // `wanted`: which results something reads; all of them where it is empty. `shown`, if valid, stands in place of the
  // first tensor: of a view that is made again, of a base with another value.
  Arguments(const AtenCall& call, Around& around, std::vector<bool> wanted, Tensor shown = {});

  // Of the target, between "aten." and the overload: "add".
  std::string_view base() const;
  size_t result_count() const { return call_.results.size(); }
  bool wants(size_t result) const { return wanted_.empty() || (result < wanted_.size() && wanted_[result]); }

  bool ok() const { return !failed_; }
  void fail(const std::string& message);

  // Whether it is given, and not None.
  bool has(std::string_view name) const { return given(name) != nullptr; }

  Tensor tensor(std::string_view name);  // a number is one without axes
  // Absent where it is not given.
  Operand optional(std::string_view name);
  // A tensor or a number, with what PyTorch's promotion asks of it.
  Term term(std::string_view name);
  Term term(std::string_view name, Term otherwise) { return has(name) ? term(name) : std::move(otherwise); }
  std::vector<Tensor> tensors(std::string_view name);
  std::vector<std::optional<Tensor>> optional_tensors(std::string_view name);

  int64_t integer(std::string_view name, std::optional<int64_t> otherwise = {});
  double real(std::string_view name, std::optional<double> otherwise = {});
  bool flag(std::string_view name, std::optional<bool> otherwise = {});
  std::string word(std::string_view name, std::string otherwise);
  ElementType element(std::string_view name, ElementType otherwise);
  Dim dim(std::string_view name, std::optional<Dim> otherwise = {});
  // A number alone is a list of one.
  Shape shape(std::string_view name);
  Ints ints(std::string_view name, std::optional<Ints> otherwise = {});
  std::vector<double> reals(std::string_view name);
  std::vector<bool> flags(std::string_view name, std::vector<bool> otherwise);
  // `count` numbers, of which one alone, or a list of one, stands for all.
  Ints repeated(std::string_view name, size_t count, std::optional<int64_t> otherwise = {});

  // --- axes: from 0 on ---
  int axis(int64_t given, int rank);  // of a scalar: 0
  int axis(std::string_view name, int rank, std::optional<int64_t> otherwise = {});
  // None and an empty list: all of them.
  Axes axes(std::string_view name, int rank);

  // Writes to the tensor that is the argument.
  void write(std::string_view name, const Tensor& value);

  // --- random numbers ---
  // For `words` of philox: the seed, and an offset of this call's own.
  Random draw(const Dim& words);

 private:
  const AtenArgument* given(std::string_view name) const;
  const AtenArgument* needed(std::string_view name, bool has_default);
  void wrong(std::string_view name, const AtenArgument& argument, std::string_view wanted);
  std::optional<Term> term_of(std::string_view name, const AtenArgument& argument);
  std::optional<Dim> dim_of(std::string_view name, const AtenArgument& argument);
  std::optional<Value> value_of(const AtenName& name);
  // The elements of a list, or the argument itself.
  std::vector<const AtenArgument*> listed(const AtenArgument& argument) const;

  const AtenCall& call_;
  Around& around_;
  std::vector<bool> wanted_;
  Tensor shown_;
  const AtenName* first_ = nullptr;  // in place of which it stands
  bool failed_ = false;
};

// "aten.add.Tensor" as the table has it: "add.Tensor"; "aten.relu.default": "relu". Empty where it is none of ATen.
std::string_view table_name(std::string_view target);
// The name of `self`, or else of the first tensor among the arguments, alone or in a list; null where there is none.
const AtenName* first_tensor(const AtenCall& call);

}  // namespace kiln::graph::aten
