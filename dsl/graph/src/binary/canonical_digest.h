// What the canonical form tells things apart by.
#pragma once

#include <bit>
#include <map>
#include <span>
#include <vector>

#include "binary/format.h"

namespace kiln::graph {

// Orders what is computed, by no number of the graph. What counts as equal is compared in full.
struct Digest {
  uint64_t high = 0x6a09e667f3bcc908u, low = 0xbb67ae8584caa73bu;  // SHA-512's first words: any would do

  void add(uint64_t word) {
    high = (high ^ word) * 0x9e3779b97f4a7c15u;
    high ^= high >> 32;
    low = (low + word) * 0xc2b2ae3d27d4eb4fu;
    low ^= low >> 29;
  }
  void add(const Digest& other) {
    add(other.high);
    add(other.low);
  }
  void add(std::span<const std::byte> bytes) {
    add(bytes.size());
    for (const std::byte byte : bytes) add(static_cast<uint64_t>(byte));
  }
  auto operator<=>(const Digest&) const = default;
};

// Numbers for what is equal: by its encoding, in full.
class Interner {
 public:
  // The number of what has these bytes, and whether it is new.
  std::pair<uint32_t, bool> find(std::vector<std::byte> bytes) {
    const auto [place, fresh] = ids_.try_emplace(std::move(bytes), static_cast<uint32_t>(ids_.size()));
    return {place->second, fresh};
  }

 private:
  std::map<std::vector<std::byte>, uint32_t> ids_;
};

// Adds what types and attributes say to a digest. Dims count by what they are: their numbers depend on how many others
// there are.
class Describe {
 public:
  Describe(Digest& out, const std::vector<Digest>& dims) : out_(out), dims_(dims) {}

  void operator()(int64_t value) const { out_.add(static_cast<uint64_t>(value)); }
  void operator()(double value) const { out_.add(std::bit_cast<uint64_t>(value)); }
  void operator()(ElementType value) const { out_.add(static_cast<uint64_t>(value)); }
  void operator()(Literal value) const { out_.add(value.bits); }
  void operator()(const std::string& value) const { out_.add(std::as_bytes(std::span(value))); }
  void operator()(const Expr& expr) const {
    out_.add(expr.terms().size());
    for (const dsl::Term& term : expr.terms()) {
      out_.add(static_cast<uint64_t>(term.coefficient));
      out_.add(term.atoms.size());
      for (const dsl::Atom& atom : term.atoms) add(atom);
    }
  }
  template <class T>
  void operator()(const std::vector<T>& values) const {
    out_.add(values.size());
    for (const T& value : values) (*this)(value);
  }
  void operator()(uint64_t value) const { out_.add(value); }
  void operator()(const TensorType& type) const {
    (*this)(type.element);
    (*this)(type.shape);
  }

 private:
  void add(const dsl::Atom& atom) const {
    out_.add(static_cast<uint64_t>(atom.kind));
    if (!atom.args) return out_.add(dims_[atom.index]);
    (*this)(atom.args->first);
    (*this)(atom.args->second);
  }

  Digest& out_;
  const std::vector<Digest>& dims_;
};

// The bytes of attributes.
inline std::vector<std::byte> bytes_of(const AttrList& list) {
  std::vector<std::byte> bytes;
  dsl::CborWriter writer(bytes);
  write_attrs(list, writer);
  return bytes;
}

}  // namespace kiln::graph
