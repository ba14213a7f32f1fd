// A program may fork, and may end, at any moment and from any thread, also while others are inside of the client. What
// they hold must then be left as it is: by exit(), which destroys statics behind their backs, and by the child of a
// fork(), where locks are held by threads that are not there.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace kiln::client {

// When and in which process an object was made. Thread-safe.
class Birth {
 public:
  Birth();

  // To be called when the object is used. exit() runs handlers and destructors of statics in the reverse order of their
  // registration: one that notes the end of the process is registered with the first use, when a static that holds the
  // object has been made, so that it runs before that one's destructor.
  void used() const {
    if (!watched_.load(std::memory_order_relaxed)) [[unlikely]]
      watch();
  }
  // Its first use is still to come, or just begins in another thread: where exit() destroys it, no handler has said so.
  bool is_unused() const { return !watched_.load(std::memory_order_acquire); }
  // The object is of the process that forked this one.
  bool of_parent() const { return process_ != this_process_.load(std::memory_order_relaxed); }
  // The object must not be destroyed.
  bool stays() const { return of_parent() || ending_.load(std::memory_order_relaxed); }
  // What has this as a member is reachable for ever, and no leak. Takes no memory and no lock: exit() may have been
  // called by a signal handler.
  void keep() const;

 private:
  friend struct ForkHandlers;
  void watch() const;

  static std::atomic<uint64_t> this_process_;
  static std::atomic<bool> ending_;
  uint64_t process_;
  mutable std::atomic<bool> begun_{false}, watched_{false}, kept_{false};
  mutable const Birth* next_kept_ = nullptr;
};

// This thread is the one that called fork(), seen from the child: the threads that it had for parallel regions are
// gone.
bool is_forked_thread();

// The child of a fork() closes the descriptor, until this is destroyed: otherwise the peer would not see its parent
// end.
class ClosedInChild {
 public:
  explicit ClosedInChild(int fd);
  ~ClosedInChild();
  ClosedInChild(const ClosedInChild&) = delete;
  ClosedInChild& operator=(const ClosedInChild&) = delete;

 private:
  std::atomic<int>* slot_ = nullptr;
};

// Held while the dynamic linker loads or unloads a library: fork() waits, for the child's linker could not go on from
// the middle of it.
class LinkerTurn {
 public:
  LinkerTurn();
  ~LinkerTurn();
  LinkerTurn(const LinkerTurn&) = delete;
  LinkerTurn& operator=(const LinkerTurn&) = delete;
};

// Deletes an object, unless its birth says that it must not be.
struct DeleteUnlessItStays {
  template <class T>
  void operator()(T* object) const {
    const Birth& birth = object->birth();
    if (!birth.stays()) return delete object;
    object->keep();
  }
};

// A T in each process: the child of a fork() makes its own when it first asks for it. Thread-safe. Not a member, but
// what a member points to, so that threads may still ask when the owner has been destroyed by exit(): end it with
// DeleteUnlessItStays.
template <class T>
class PerProcess {
 public:
  explicit PerProcess(std::function<std::unique_ptr<T>()> make) : make_(std::move(make)), newest_(new Node{make_()}) {}
  ~PerProcess() { delete newest_.load(std::memory_order_acquire); }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // This process has not made the first one: it has been forked since.
  bool inherited() const { return first_.of_parent(); }
  const Birth& birth() const { return newest_.load(std::memory_order_acquire)->birth; }
  void keep() const { first_.keep(); }

  T& get() {
    Node* newest = newest_.load(std::memory_order_acquire);
    newest->birth.used();
    if (!newest->birth.of_parent()) [[likely]]
      return *newest->value;
    std::unique_ptr<Node> mine(new Node{make_()});
    if (!newest_.compare_exchange_strong(newest, mine.get(), std::memory_order_acq_rel)) return *newest->value;
    newest->birth.keep();
    return *mine.release()->value;
  }

 private:
  struct Node {
    std::unique_ptr<T> value;
    Birth birth = {};
  };
  const Birth first_;
  const std::function<std::unique_ptr<T>()> make_;
  std::atomic<Node*> newest_;
};

// The thread's own T. It may be asked for at any time: where the thread's destructors have run already, as those of the
// main thread have when statics are destroyed, there is another one.
template <class T>
T& of_thread() {
  thread_local T* mine = nullptr;
  struct Owner {
    ~Owner() { delete std::exchange(mine, nullptr); }
  };
  if (mine == nullptr) {
    mine = new T();
    thread_local Owner owner;
    (void)owner;
  }
  return *mine;
}

}  // namespace kiln::client
