#include "numbers.h"

#include <map>

#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/tolerance.h"

namespace kiln::oracle {
namespace {

namespace ref = kiln::reference;

Pairs all_pairs(Type type) {
  Pairs out;
  for (const Bits a : ref::all_values(type)) {
    for (const Bits b : ref::all_values(type)) out.add(a, b);
  }
  return out;
}

// The partners that are not special change with a, so that all together they cover much of the type.
Pairs sampled_pairs(Type type) {
  Pairs out;
  const Column special = ref::specials(type), random = ref::random_bits(type, 8191, 7);
  const size_t partners = ref::is_float(type) ? 64 : 16;
  size_t next = 0;
  for (const Bits a : ref::all_values(type)) {
    for (size_t i = 0; i < partners; ++i) {
      if (i < special.size()) {
        out.add(a, special[i]);
      } else if (i % 4 == 0) {
        out.add(a, (a ^ (random[next++ % random.size()] & 0x83ff)));  // near in exponent: sums cancel
      } else {
        out.add(a, random[next++ % random.size()]);
      }
    }
  }
  return out;
}

Pairs wide_pairs(Type type) {
  Pairs out;
  const Column special = ref::specials(type), elements = ref::random_elements(type, 2048, 3, false);
  for (const Bits a : special) {
    for (const Bits b : special) out.add(a, b);
    for (size_t i = 0; i < 64; ++i) {
      out.add(a, elements[i]);
      out.add(elements[i], a);
    }
  }
  const Column bits = ref::random_bits(type, 8192, 11);
  for (size_t i = 0; i + 1 < elements.size(); i += 2) out.add(elements[i], elements[i + 1]);
  for (size_t i = 0; i + 2 < bits.size(); i += 3) {
    out.add(bits[i], bits[i + 1]);
    // Some low bits differ, and for the second kind the exponent by a few steps too.
    const unsigned low = static_cast<unsigned>(bits[i + 2] % static_cast<Bits>(ref::width(type)));
    out.add(bits[i], bits[i] ^ (bits[i + 1] & ((Bits{1} << low) - 1)));
    const int mantissa = type == Type::kF64 ? 52 : 23;
    if (ref::is_float(type)) out.add(bits[i], bits[i] ^ (bits[i + 2] & ((Bits{1} << (mantissa + 3)) - 1)));
  }
  // Small ints, whose products and quotients are small too.
  if (!ref::is_float(type)) {
    for (size_t i = 0; i < 512; ++i) out.add(bits[2 * i], bits[2 * i + 1] & 0xff);
  }
  return out;
}

// The element's value, which 113 bits hold.
ref::Quad quad(Type type, Bits bits) {
  if (type == Type::kF64) return std::bit_cast<double>(bits);
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}

}  // namespace

const Pairs& pairs(Type type) {
  static std::map<Type, Pairs> made;
  auto found = made.find(type);
  if (found == made.end()) {
    const int width = ref::width(type);
    found = made.emplace(type, width <= 8    ? all_pairs(type)
                               : width == 16 ? sampled_pairs(type)
                                             : wide_pairs(type))
                .first;
  }
  return found->second;
}

Column values(Type type, int64_t random) {
  if (ref::width(type) <= 16) return ref::all_values(type);
  Column out = ref::specials(type);
  for (const Column& more : {ref::random_bits(type, random, 21), ref::random_elements(type, random, 22, false)}) {
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

void expect_same(const std::string& what, Type result, const Column& got, const Column& want,
                 const std::vector<Type>& types, const std::vector<Column>& operands, bool any_zero) {
  ASSERT_EQ(got.size(), want.size()) << what;
  size_t wrong = 0;
  std::string shown;
  auto hex = [](Type type, Bits bits) {
    char text[64];
    std::snprintf(text, sizeof text, "0x%llx (%.20Lg)", static_cast<unsigned long long>(bits),
                  ref::real_value(type, bits));
    return std::string(text);
  };
  for (size_t i = 0; i < got.size(); ++i) {
    if (got[i] == want[i] || ref::same(result, got[i], want[i], any_zero)) continue;
    if (++wrong > 4) continue;
    shown += "\n  of";
    for (size_t k = 0; k < operands.size(); ++k) shown += " " + hex(types[k], operands[k][i]);
    shown += ": got " + hex(result, got[i]) + ", want " + hex(result, want[i]);
  }
  EXPECT_EQ(wrong, 0u) << what << " of " << type_name(types.at(0)) << " giving " << type_name(result) << ", among "
                       << got.size() << shown;
}

const Pairs& fewer_pairs(Type type) {
  if (ref::width(type) != 16) return pairs(type);
  static std::map<Type, Pairs> made;
  auto found = made.find(type);
  if (found == made.end()) {
    Pairs some;
    const Pairs& all = pairs(type);
    for (size_t i = 0; i < all.a.size(); i += 17) some.add(all.a[i], all.b[i]);
    found = made.emplace(type, std::move(some)).first;
  }
  return found->second;
}

void expect_binary(const std::string& op, Type type, const Binary& reference, bool any_zero) {
  expect_binary(op, type, type, pairs(type), reference, any_zero);
}

void expect_binary(const std::string& op, Type type, Type result, const Pairs& operands, const Binary& reference,
                   bool any_zero) {
  Column want;
  want.reserve(operands.a.size());
  for (size_t i = 0; i < operands.a.size(); ++i) want.push_back(reference(type, operands.a[i], operands.b[i]));
  const Column got = run_elementwise(op, {type, type}, {operands.a, operands.b}, result);
  expect_same(op, result, got, want, {type, type}, {operands.a, operands.b}, any_zero);
}

Bits rounded_once(Arithmetic op, Type type, Bits a, Bits b) {
  // 113 bits are at least 2p+2 for p = 24 and 53: rounding to them first is innocuous for these four (Figueroa, "When
  // is double rounding innocuous?", SIGNUM 1995).
  const ref::Quad x = quad(type, a), y = quad(type, b);
  switch (op) {
    case Arithmetic::kAdd:
      return ref::encode(type, ref::dyadic_of_quad(x + y));
    case Arithmetic::kSub:
      return ref::encode(type, ref::dyadic_of_quad(x - y));
    case Arithmetic::kMul:
      return ref::encode(type, ref::dyadic_of_quad(x * y));
    case Arithmetic::kDiv:
      break;
  }
  return ref::encode(type, ref::dyadic_of_quad(x / y));
}

Bits rounded_fma(Type type, Bits a, Bits b, Bits c) {
  const ref::Quad product = quad(type, a) * quad(type, b), z = quad(type, c);  // exact
  ref::Quad sum = product + z;
  if (!ref::dyadic_of_quad(sum).is_finite()) return ref::encode(type, ref::dyadic_of_quad(sum));
  // Knuth's two-sum gives the error of the sum; where there is one, the sum is rounded to odd instead, so that it lies
  // on the right side of every tie.
  const ref::Quad part = sum - product;
  const ref::Quad error = (product - (sum - part)) + (z - part);
  if (error != 0) {
    auto bits = std::bit_cast<unsigned __int128>(sum);
    if ((bits & 1) == 0) bits = (error > 0) == (sum > 0) ? bits + 1 : bits - 1;
    sum = std::bit_cast<ref::Quad>(bits);
  }
  return ref::encode(type, ref::dyadic_of_quad(sum));
}

}  // namespace kiln::oracle
