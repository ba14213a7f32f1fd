// Control flow of the kernel, traced from C++ functions: loops, branches, and the functions of reductions and scans.
//
//   for (Value k : range(0, K, BK).stages(3)) { … }         the body is traced once
//   while_([&] { return n != 1; }, [&] { n = …; })
//   if_(n > 0, [&] { x += 1; }, [&] { x = 0; });             x: a Var made before
//   Value y = if_(n > 0, [&] { return a; }, [&] { return b; });
//
// Only one of the branches runs, unlike with where(). Conditions are scalars. A condition that is a Const chooses when
// the config is known: the other branch is dropped then, and need not make sense for that config.
#pragma once

#include <array>
#include <functional>
#include <tuple>

#include "kiln/dsl/value.h"

namespace kiln::dsl::lang {

class [[nodiscard]] Range {
 public:
  Range(std::vector<Operand> bounds, SourceLocation loc);
  ~Range();
  Range(Range&& other) noexcept;
  Range& operator=(Range&&) = delete;

  // A hint: how many iterations' loads may be in flight.
  Range stages(Const count) &&;

  class Iterator {
   public:
    explicit Iterator(Range* range) : range_(range) {}
    bool operator!=(const Iterator&) const { return range_->state_ == State::kRunning; }
    Value operator*() const { return range_->index_; }
    Iterator& operator++();

   private:
    Range* range_;
  };
  Iterator begin();
  Iterator end() { return Iterator(this); }

 private:
  enum class State : uint8_t { kIdle, kRunning, kDone };

  std::vector<Value> bounds_;
  Expr stages_ = Expr(1);
  SourceLocation loc_;
  State state_ = State::kIdle;
  bool opened_ = false;
  Value index_;
};
Range range(Operand end, SourceLocation loc = SourceLocation::current());
Range range(Operand start, Operand end, SourceLocation loc = SourceLocation::current());
Range range(Operand start, Operand end, Operand step, SourceLocation loc = SourceLocation::current());

// How authors' functions are called, and what they give: nothing, a value (a number, a Const, a Var, …) or several in a
// pair, tuple, array or vector.
namespace tracing {

using Operands = std::vector<Operand>;
using Branch = std::function<Operands()>;
using Combine = std::function<Operands(const std::vector<Value>& left, const std::vector<Value>& right)>;

// As many values as each branch gives.
std::vector<Value> if_(const Operand& condition, const Branch& then, const Branch& otherwise);
void while_(const std::function<Operand()>& condition, const std::function<void()>& body, SourceLocation loc);

inline Value at(const std::vector<Value>& values, size_t i) { return i < values.size() ? values[i] : Value(); }

// What a function gives as operands, and results in the same form.
template <class T>
struct Given;
template <>
struct Given<void> {
  using Values = void;
};
template <std::convertible_to<Operand> T>
struct Given<T> {
  using Values = Value;
  static Operands operands(const T& given, SourceLocation loc) { return {Operand(given, loc)}; }
  static Value values(const std::vector<Value>& values) { return at(values, 0); }
};
template <>
struct Given<Operand> {
  using Values = Value;
  static Operands operands(const Operand& given, SourceLocation) { return {given}; }
  static Value values(const std::vector<Value>& values) { return at(values, 0); }
};
template <class T>
struct Given<std::vector<T>> {
  using Values = std::vector<Value>;
  static Operands operands(const std::vector<T>& given, SourceLocation loc) {
    Operands out;
    for (const T& each : given) out.push_back(Given<T>::operands(each, loc)[0]);
    return out;
  }
  static std::vector<Value> values(const std::vector<Value>& values) { return values; }
};
template <class T, size_t N>
struct Given<std::array<T, N>> {
  using Values = std::array<Value, N>;
  static Operands operands(const std::array<T, N>& given, SourceLocation loc) {
    return Given<std::vector<T>>::operands({given.begin(), given.end()}, loc);
  }
  static Values values(const std::vector<Value>& values) {
    Values out;
    for (size_t i = 0; i < N; ++i) out[i] = at(values, i);
    return out;
  }
};
template <class... Ts>
struct Given<std::tuple<Ts...>> {
  template <class>
  using ValueOf = Value;
  using Values = std::tuple<ValueOf<Ts>...>;
  static Operands operands(const std::tuple<Ts...>& given, SourceLocation loc) {
    return std::apply([&](const Ts&... each) { return Operands{Given<Ts>::operands(each, loc)[0]...}; }, given);
  }
  static Values values(const std::vector<Value>& values) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return Values{at(values, I)...};
    }(std::index_sequence_for<Ts...>{});
  }
};
template <class A, class B>
struct Given<std::pair<A, B>> {
  using Values = std::pair<Value, Value>;
  static Operands operands(const std::pair<A, B>& given, SourceLocation loc) {
    return Given<std::tuple<A, B>>::operands({given.first, given.second}, loc);
  }
  static Values values(const std::vector<Value>& values) { return {at(values, 0), at(values, 1)}; }
};

template <class Fn, class... Args>
using GivenBy = Given<std::remove_cvref_t<std::invoke_result_t<Fn&, Args...>>>;

template <class Fn>
Branch branch(Fn& fn, SourceLocation loc) {
  return [&fn, loc]() -> Operands {
    static_cast<void>(loc);  // unused where nothing is given
    if constexpr (std::is_void_v<typename GivenBy<Fn>::Values>) {
      fn();
      return {};
    } else {
      return GivenBy<Fn>::operands(fn(), loc);
    }
  };
}

}  // namespace tracing

// Traces both functions; the first runs where the condition, an i1 scalar or a Const, holds. Variables that they assign
// hold afterwards what the branch that ran left in them. What they give is brought to a common type and shape.
template <std::invocable Then, std::invocable Otherwise>
auto if_(Operand condition, Then then, Otherwise otherwise) {
  using Out = tracing::GivenBy<Then>;
  static_assert(std::is_same_v<typename Out::Values, typename tracing::GivenBy<Otherwise>::Values>,
                "both branches of if_ give as many values, in the same form, or none");
  const std::vector<Value> values =
      tracing::if_(condition, tracing::branch(then, condition.loc()), tracing::branch(otherwise, condition.loc()));
  if constexpr (!std::is_void_v<typename Out::Values>) return Out::values(values);
}
template <std::invocable Then>
void if_(Operand condition, Then then) {
  static_assert(std::is_void_v<std::invoke_result_t<Then&>>, "an if_ that gives values needs both branches");
  if_(std::move(condition), std::move(then), [] {});
}

// Runs the body as long as the condition, an i1 scalar, holds. Both may use variables; only the body assigns them.
template <std::invocable Condition, std::invocable Body>
void while_(Condition condition, Body body, SourceLocation loc = SourceLocation::current()) {
  tracing::while_([&] { return tracing::GivenBy<Condition>::operands(condition(), loc)[0]; }, [&] { body(); }, loc);
}

}  // namespace kiln::dsl::lang
