// Handles: numbers that stand for objects, so that one that is freed, or no handle at all, is found out and not read.
//
// A handle has its kind in the highest 8 bits, then 24 bits that say which slot of one table, then the slot's
// generation, which is another one each time that the slot is taken. An address of user space is of kind 0, and none.
//
// A slot counts the calls that use its object ("pins"). Freeing closes it; the object goes when nobody uses it any
// more, by whoever is last. Without locks, so that a child of fork() finds none held. The table is never destroyed: a
// program may end while others are in calls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kiln/dsl/result.h"

namespace kiln::c {

enum class Kind : uint8_t {
  kNone,
  kClient,
  kBytes,
  kCancel,
  kGraph,
  kCompiledGraph,
  kTensor,
  kSafetensors,
  kModel,
  kKernel,
  kFunction,
  kDevice,
  kStream,
  kEvent,
  kRecording,
  kMemory,
};
const char* kind_name(Kind kind);  // as in kiln.h: "kiln_graph"

// What a handle stands for. A type T of them says `static constexpr Kind kKind`.
struct Object {
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;
};

// Keeps an object for as long as a call uses it.
template <class T>
class Pinned {
 public:
  Pinned() = default;
  Pinned(T* object, uint32_t slot) : object_(object), slot_(slot) {}
  Pinned(Pinned&& other) noexcept : object_(std::exchange(other.object_, nullptr)), slot_(other.slot_) {}
  Pinned& operator=(Pinned&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~Pinned();
  explicit operator bool() const { return object_ != nullptr; }
  T& operator*() const { return *object_; }
  T* operator->() const { return object_; }

 private:
  T* object_ = nullptr;
  uint32_t slot_ = 0;
};

namespace detail {
void* publish(Kind kind, std::unique_ptr<Object> object);
struct Found {
  Object* object = nullptr;  // pinned; null: `slot` is of no meaning
  uint32_t slot = 0;
};
Found find(Kind kind, const void* handle);
void unpin(uint32_t slot);
// Why find() found nothing: "`graph` is a kiln_client, not a kiln_graph".
Error bad_handle(Kind kind, const void* handle, const char* name);
}  // namespace detail

template <class T>
Pinned<T>::~Pinned() {
  if (object_ != nullptr) detail::unpin(slot_);
}

// A new handle of the object.
template <class Handle, class T>
Handle* publish(std::unique_ptr<T> object) {
  return static_cast<Handle*>(detail::publish(T::kKind, std::move(object)));
}

// The object of a handle. `name` is the parameter's, for the error.
template <class T>
Result<Pinned<T>> pin(const void* handle, const char* name) {
  const detail::Found found = detail::find(T::kKind, handle);
  if (found.object == nullptr) return detail::bad_handle(T::kKind, handle, name);
  return Pinned<T>(static_cast<T*>(found.object), found.slot);
}

Result<void> free_handle(void* handle);

}  // namespace kiln::c
