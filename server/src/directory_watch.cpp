// Names in a directory, by inotify(7).
#include "directory_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include "connections/watched.h"

namespace kiln::server {

void DirectoryWatch::start(const std::string& directory, std::function<void()> on_change) {
  constexpr uint32_t kNames = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF;
  wire::UniqueFd events(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!events || ::inotify_add_watch(events.get(), directory.c_str(), kNames | IN_ONLYDIR) < 0) return;
  auto descriptor = watched(io_, std::move(events));
  if (!descriptor) return;
  on_change_ = std::move(on_change);
  events_ = std::make_unique<asio::posix::stream_descriptor>(std::move(*descriptor));
  wait();
}

void DirectoryWatch::wait() {
  events_->async_wait(asio::posix::descriptor_base::wait_read, [this](const boost::system::error_code& failed) {
    if (failed || !events_) return;
    // A part of what there is, so that whoever makes names without end delays nobody else; the rest is waited for.
    alignas(inotify_event) char taken[4096];
    (void)!::read(events_->native_handle(), taken, sizeof taken);
    on_change_();  // which may stop this
    if (events_) wait();
  });
}

}  // namespace kiln::server
