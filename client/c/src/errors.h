// The edge: what a function of kiln.h gives back, and nothing else comes out.
#pragma once

#include <cxxabi.h>

#include <exception>
#include <new>

#include "kiln.h"
#include "kiln/dsl/result.h"

namespace kiln::c {

// Keeps the error for kiln_error_message() of this thread.
kiln_status keep(Error error) noexcept;
kiln_status keep_out_of_memory() noexcept;

// Runs a function of kiln.h. Whatever it throws becomes a status, but for the way in which a thread that is cancelled
// leaves its frames, which must go on. That one is caught by a reference to nothing, which sanitizers refuse.
template <class Function>
[[gnu::no_sanitize("null")]] kiln_status guarded(Function&& function) {
  try {
    Result<void> done = function();
    return done ? KILN_OK : keep(std::move(done.error()));
  } catch (__cxxabiv1::__forced_unwind&) {
    throw;
  } catch (const std::bad_alloc&) {
    return keep_out_of_memory();
  } catch (const std::exception& failure) {
    return keep(internal_error(failure.what()));
  } catch (...) {
    return keep(internal_error("an unknown exception"));
  }
}
// Of functions that give a value, and `otherwise` where something is wrong.
template <class T, class Function>
T guarded_value(T otherwise, Function&& function) {
  T out = otherwise;
  const kiln_status status = guarded([&]() -> Result<void> { return function(out); });
  return status == KILN_OK ? out : otherwise;
}

// "`name` is NULL"
Error null_argument(const char* name);
template <class T>
Result<void> check_pointer(const T* pointer, const char* name) {
  if (pointer == nullptr) return null_argument(name);
  return {};
}
// Of `count` things at a pointer that may be null where there are none.
template <class T>
Result<void> check_pointer(const T* pointer, size_t count, const char* name) {
  if (pointer == nullptr && count > 0) return null_argument(name);
  return {};
}

// A caller's options as this library knows them: what a shorter struct lacks is 0. Error: a size that is 0, or a field
// behind those known that is not 0.
Result<void> copy_options(const void* given, void* known, size_t size, const char* name);
template <class Options>
Result<Options> read_options(const Options* given, const char* name) {
  Options known{};
  known.size = sizeof known;
  if (given == nullptr) return known;
  if (auto copied = copy_options(given, &known, sizeof known, name); !copied) return copied.error();
  return known;
}

}  // namespace kiln::c
