// For function-local statics of code that a program links.
#pragma once

#include <utility>

namespace kiln::dsl {

// A value that is never destroyed: other threads may use it while exit() destroys what is static.
//   static const Kept table = make_table();
//   return *table;
template <class T>
class Kept {
 public:
  Kept(T value) : value_(*new T(std::move(value))) {}  // NOLINT(google-explicit-constructor): reads as what it keeps
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }

 private:
  const T& value_;
};

}  // namespace kiln::dsl
