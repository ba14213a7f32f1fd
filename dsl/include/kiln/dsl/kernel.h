// kernel(name, names, function): traces a C++ function into a kernel whose C++ type says how it is launched.
//
//   auto scale = kernel("scale", {"x", "y", "n", "a", "BLOCK=1024"},
//                       [](Ptr<const f32> x, Ptr<f32> y, i32 n, f32 a, Const BLOCK) { … });
//   // KernelDef<Ptr<const f32>, Ptr<f32>, i32, f32>
#pragma once

#include <atomic>
#include <bit>
#include <initializer_list>
#include <memory>
#include <tuple>

#include "kiln/dsl/kept.h"
#include "kiln/dsl/library.h"
#include "kiln/dsl/text.h"

namespace kiln {

// Small floats in the memory of a C++ program. `from` rounds to nearest even.
struct f16 {
  uint16_t bits = 0;
  static f16 from(double value) {
    return {static_cast<uint16_t>(dsl::bits_from_double(dsl::ElementType::kF16, value))};
  }
  explicit operator float() const { return static_cast<float>(dsl::double_from_bits(dsl::ElementType::kF16, bits)); }
};
struct bf16 {
  uint16_t bits = 0;
  static bf16 from(double value) {
    return {static_cast<uint16_t>(dsl::bits_from_double(dsl::ElementType::kBF16, value))};
  }
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
};
struct f8e4m3 {
  uint8_t bits = 0;
  static f8e4m3 from(double value) {
    return {static_cast<uint8_t>(dsl::bits_from_double(dsl::ElementType::kF8E4M3, value))};
  }
  explicit operator float() const { return static_cast<float>(dsl::double_from_bits(dsl::ElementType::kF8E4M3, bits)); }
};
struct f8e5m2 {
  uint8_t bits = 0;
  static f8e5m2 from(double value) {
    return {static_cast<uint8_t>(dsl::bits_from_double(dsl::ElementType::kF8E5M2, value))};
  }
  explicit operator float() const { return static_cast<float>(dsl::double_from_bits(dsl::ElementType::kF8E5M2, bits)); }
};

namespace dsl {

// The C++ type of a launch argument for a parameter type.
template <class Param>
struct LaunchType;
template <>
struct LaunchType<lang::i1> {
  using type = bool;
};
template <>
struct LaunchType<lang::i8> {
  using type = int8_t;
};
template <>
struct LaunchType<lang::i16> {
  using type = int16_t;
};
template <>
struct LaunchType<lang::i32> {
  using type = int32_t;
};
template <>
struct LaunchType<lang::i64> {
  using type = int64_t;
};
template <>
struct LaunchType<lang::u8> {
  using type = uint8_t;
};
template <>
struct LaunchType<lang::u16> {
  using type = uint16_t;
};
template <>
struct LaunchType<lang::u32> {
  using type = uint32_t;
};
template <>
struct LaunchType<lang::u64> {
  using type = uint64_t;
};
template <>
struct LaunchType<lang::f16> {
  using type = kiln::f16;
};
template <>
struct LaunchType<lang::bf16> {
  using type = kiln::bf16;
};
template <>
struct LaunchType<lang::f32> {
  using type = float;
};
template <>
struct LaunchType<lang::f64> {
  using type = double;
};
template <>
struct LaunchType<lang::f8e4m3> {
  using type = kiln::f8e4m3;
};
template <>
struct LaunchType<lang::f8e5m2> {
  using type = kiln::f8e5m2;
};
template <class T>
struct LaunchType<lang::Ptr<T>> {
  using type = typename LaunchType<T>::type*;
};
template <class T>
struct LaunchType<lang::Ptr<const T>> {
  using type = const typename LaunchType<T>::type*;
};
template <class Param>
using launch_type_t = typename LaunchType<Param>::type;

namespace detail {
inline uint64_t next_kernel_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}
}  // namespace detail

// A traced kernel, or what was wrong with it. Args: the types of the parameters that are not Const.
template <class... Args>
class KernelDef {
 public:
  explicit KernelDef(Result<Kernel> ir) : ir_(std::move(ir)) {}

  const Result<Kernel>& ir() const { return ir_; }
  // The kernel as a `.kiln` file has it, for `kiln run`, `kiln compile` and `kiln tune`.
  Result<std::string> text() const { return ir_ ? Result<std::string>(print(*ir_)) : ir_.error(); }
  // Stands for the IR in look-up tables of this process: copies share it, and whatever changes the IR changes it.
  uint64_t id() const { return id_; }

  // The values that the tuner may try: names of Consts, or the schedule options num_warps and num_stages.
  KernelDef space(std::vector<SpaceAxis> axes) &&;
  // Axes for a target alone, a family or one of it as for `defaults`, in place of those of these names.
  KernelDef space(const std::string& target, std::vector<SpaceAxis> axes) &&;
  // What every launch must meet, over Consts and int parameters: "le(cols, BLOCK)". One for which it is 0 is refused,
  // with the expression and its values; configs of the space for which it is 0 are not tried.
  KernelDef where(const std::string& constraint) &&;
  // What the tuner puts behind a pointer: so many elements, "rows*stride"; values of [low, high) where they are given.
  KernelDef array(const std::string& param, const std::string& elements, const std::string& low = {},
                  const std::string& high = {}) &&;
  // What a request that says nothing gets on some targets, in place of the Consts' defaults: values of Consts, or of
  // the schedule options. `target` is a family, "cuda", or one of it, "cuda:sm_90a", which comes first.
  KernelDef defaults(const std::string& target, ConstexprValues values) &&;
  // Whether single-use a*b + c becomes one fused operation; on unless said otherwise.
  KernelDef contract(bool on) && { return std::move(*this).with(&KernelOptions::contract, on); }
  // Whether chains of ops on f16, bf16 and f8 keep f32 between them.
  KernelDef fuse_precision(bool on = true) && { return std::move(*this).with(&KernelOptions::fuse_precision, on); }
  // Whether sums have one order of accumulation, whatever the thread count.
  KernelDef deterministic(bool on = true) && { return std::move(*this).with(&KernelOptions::deterministic, on); }
  // Whether check() is done, and code names source lines.
  KernelDef debug(bool on = true) && { return std::move(*this).with(&KernelOptions::debug, on); }
  // Whether code names source lines, for profilers, debuggers and sanitizers; the code is the same.
  KernelDef debug_lines(bool on = true) && { return std::move(*this).with(&KernelOptions::lines, on); }
  // Whether accesses are checked against the extents of their buffers.
  KernelDef check_bounds(bool on = true) && { return std::move(*this).with(&KernelOptions::check_bounds, on); }

 private:
  KernelDef with(bool KernelOptions::* option, bool on) && {
    if (ir_) ir_->options.*option = on;
    id_ = detail::next_kernel_id();
    return std::move(*this);
  }

  Result<Kernel> ir_;
  uint64_t id_ = detail::next_kernel_id();
};

namespace detail {

struct ParamSpec {
  bool is_const = false;
  Type type;
  bool readonly = false;
};

template <class P>
struct ParamTraits;  // defined for Const, scalars and Ptr only
template <>
struct ParamTraits<lang::Const> {
  static ParamSpec spec() { return {.is_const = true, .type = {}, .readonly = false}; }
};
template <ElementType kType>
struct ParamTraits<lang::Scalar<kType>> {
  static ParamSpec spec() { return {.is_const = false, .type = scalar_type(kType), .readonly = false}; }
};
template <class T>
struct ParamTraits<lang::Ptr<T>> {
  static ParamSpec spec() {
    return {.is_const = false, .type = {lang::element_v<T>, true, {}}, .readonly = std::is_const_v<T>};
  }
};

// Makes a trace current for this thread while it lives.
class TraceSession {
 public:
  TraceSession(std::string_view name, std::initializer_list<std::string_view> names, std::vector<ParamSpec> params,
               std::source_location loc);
  ~TraceSession();
  TraceSession(const TraceSession&) = delete;
  TraceSession& operator=(const TraceSession&) = delete;

  bool ready() const;  // false when the names are wrong: there is nothing to call the function with
  Result<Kernel> finish();

  template <class P>
  P param(size_t index) const {
    if constexpr (std::is_same_v<P, lang::Const>) {
      return constant(index);
    } else {
      return P(argument(index));
    }
  }

 private:
  lang::Const constant(size_t index) const;
  lang::Argument argument(size_t index) const;

  struct State;
  std::unique_ptr<State> state_;
};

// Adds axes, or those of a target.
Result<Kernel> with_space(Result<Kernel> ir, const std::string& target, std::vector<SpaceAxis> axes);
Result<Kernel> with_constraint(Result<Kernel> ir, const std::string& constraint);
Result<Kernel> with_array(Result<Kernel> ir, const std::string& param, const std::string& elements,
                          const std::string& low, const std::string& high);
Result<Kernel> with_defaults(Result<Kernel> ir, const std::string& target, ConstexprValues values);

// KernelDef of the parameters that are not Const.
template <class Kept, class... Params>
struct DefOf;
template <class... Kept>
struct DefOf<std::tuple<Kept...>> {
  using type = KernelDef<Kept...>;
};
template <class... Kept, class P, class... Rest>
struct DefOf<std::tuple<Kept...>, P, Rest...>
    : std::conditional_t<std::is_same_v<P, lang::Const>, DefOf<std::tuple<Kept...>, Rest...>,
                         DefOf<std::tuple<Kept..., P>, Rest...>> {};

// What is wrong with a parameter's type is said here, in one sentence, and nothing of the kernel is traced then.
template <class P>
constexpr bool is_param() {
  using T = std::remove_cvref_t<P>;
  static_assert(!std::is_pointer_v<T>,
                "a kernel's pointer parameter is a Ptr<f32>, or a Ptr<const f32> that is only read: not a float*");
  static_assert(
      !std::is_arithmetic_v<T>,
      "a kernel's scalar parameter is an i32, f32 or the like of kiln::lang, known at launch, or a Const, known "
      "when a config is chosen: not an int or a float");
  static_assert(
      std::is_pointer_v<T> || std::is_arithmetic_v<T> || requires { ParamTraits<T>::spec(); },
      "a kernel's parameters are Const, i1 to f64, and Ptr of these: a Value or a Var has no type that a "
      "launch could be checked against");
  return requires { ParamTraits<T>::spec(); };
}

// Of a function's type; defined where it returns nothing.
template <class Call>
struct Signature;
template <class... Params>
struct Signature<void (*)(Params...)> {
  static constexpr bool kIsFine = (is_param<Params>() && ...);
  using Def = typename DefOf<std::tuple<>, std::remove_cvref_t<Params>...>::type;

  template <class Fn>
  static Def trace(std::string_view name, std::initializer_list<std::string_view> names, Fn& fn,
                   std::source_location loc) {
    TraceSession session(name, names, {ParamTraits<std::remove_cvref_t<Params>>::spec()...}, loc);
    if (session.ready()) {
      [&]<size_t... I>(std::index_sequence<I...>) {
        fn(session.param<std::remove_cvref_t<Params>>(I)...);
      }(std::index_sequence_for<Params...>{});
    }
    return Def(session.finish());
  }
};
template <class C, class... Params>
struct Signature<void (C::*)(Params...) const> : Signature<void (*)(Params...)> {};
template <class C, class... Params>
struct Signature<void (C::*)(Params...)> : Signature<void (*)(Params...)> {};
template <class... Params>
struct Signature<void (*)(Params...) noexcept> : Signature<void (*)(Params...)> {};
template <class C, class... Params>
struct Signature<void (C::*)(Params...) const noexcept> : Signature<void (*)(Params...)> {};
template <class C, class... Params>
struct Signature<void (C::*)(Params...) noexcept> : Signature<void (*)(Params...)> {};

template <class Fn>
struct CallOf {
  using Type = decltype(&Fn::operator());
};
template <class R, class... Params>
struct CallOf<R (*)(Params...)> {
  using Type = R (*)(Params...);
};
template <class Fn>
inline constexpr bool kSaysItsParams = std::is_pointer_v<Fn> || requires { &Fn::operator(); };

}  // namespace detail

template <class... Args>
KernelDef<Args...> KernelDef<Args...>::space(std::vector<SpaceAxis> axes) && {
  return std::move(*this).space("", std::move(axes));
}

template <class... Args>
KernelDef<Args...> KernelDef<Args...>::space(const std::string& target, std::vector<SpaceAxis> axes) && {
  ir_ = detail::with_space(std::move(ir_), target, std::move(axes));
  id_ = detail::next_kernel_id();
  return std::move(*this);
}

template <class... Args>
KernelDef<Args...> KernelDef<Args...>::where(const std::string& constraint) && {
  ir_ = detail::with_constraint(std::move(ir_), constraint);
  id_ = detail::next_kernel_id();
  return std::move(*this);
}

template <class... Args>
KernelDef<Args...> KernelDef<Args...>::array(const std::string& param, const std::string& elements,
                                             const std::string& low, const std::string& high) && {
  ir_ = detail::with_array(std::move(ir_), param, elements, low, high);
  id_ = detail::next_kernel_id();
  return std::move(*this);
}

template <class... Args>
KernelDef<Args...> KernelDef<Args...>::defaults(const std::string& target, ConstexprValues values) && {
  ir_ = detail::with_defaults(std::move(ir_), target, std::move(values));
  id_ = detail::next_kernel_id();
  return std::move(*this);
}

namespace lang {

// `names` names the function's parameters in order; "BM=128" gives the Const BM a default. The function runs once, now.
template <class Fn>
auto kernel(std::string_view name, std::initializer_list<std::string_view> names, Fn fn,
            std::source_location loc = std::source_location::current()) {
  static_assert(detail::kSaysItsParams<Fn>,
                "a kernel's function says the types of its parameters: no `auto` among them, and one operator()");
  if constexpr (detail::kSaysItsParams<Fn>) {
    using Signature = detail::Signature<typename detail::CallOf<Fn>::Type>;
    constexpr bool kReturnsNothing = requires { sizeof(Signature); };
    static_assert(kReturnsNothing, "a kernel's function returns nothing: it stores its results through Ptr parameters");
    if constexpr (kReturnsNothing) {
      if constexpr (Signature::kIsFine) return Signature::trace(name, names, fn, loc);
    }
  }
}

}  // namespace lang
}  // namespace dsl
}  // namespace kiln
