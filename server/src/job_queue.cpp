// Round-robin between clients, in two classes.
#include "job_queue.h"

namespace kiln::server {
namespace {

constexpr size_t kManyLeft = 1024;

}  // namespace

void JobQueue::Class::push(const JobPtr& job, bool front) {
  auto [it, added] = by_client.try_emplace(job->client);
  if (added) {
    front ? fresh.push_front(job->client) : fresh.push_back(job->client);
  }
  front ? it->second.push_front(job) : it->second.push_back(job);
}

JobPtr JobQueue::Class::front() {
  for (std::deque<uint64_t>* line : {&fresh, &turns}) {
    while (!line->empty()) {
      auto it = by_client.find(line->front());
      while (!it->second.empty() && it->second.front()->state != Job::State::kQueued) it->second.pop_front();
      if (!it->second.empty()) return it->second.front();
      by_client.erase(it);
      line->pop_front();
    }
  }
  return nullptr;
}

void JobQueue::Class::pop_front() {
  std::deque<uint64_t>& line = fresh.empty() ? turns : fresh;
  const uint64_t client = line.front();
  line.pop_front();
  by_client[client].pop_front();
  turns.push_back(client);
}

void JobQueue::Class::sweep() {
  for (auto& [client, jobs] : by_client) {
    std::erase_if(jobs, [](const JobPtr& job) { return job->state != Job::State::kQueued; });
  }
  auto has_nothing = [&](uint64_t client) { return by_client[client].empty(); };
  std::erase_if(fresh, has_nothing);
  std::erase_if(turns, has_nothing);
  std::erase_if(by_client, [](const auto& item) { return item.second.empty(); });
}

void JobQueue::add(const JobPtr& job, bool front) {
  const bool is_interactive = job->priority == wire::Priority::kInteractive;
  ++size_;
  interactive_size_ += is_interactive;
  bytes_ += job->body->size();
  (is_interactive ? interactive_ : background_).push(job, front);
}

void JobQueue::push(const JobPtr& job) { add(job, false); }
void JobQueue::push_again(const JobPtr& job) { add(job, true); }

void JobQueue::promote(const JobPtr& job) {
  // Its place in the other class is skipped once it has run.
  const bool is_new = job->priority != wire::Priority::kInteractive;
  job->priority = wire::Priority::kInteractive;
  if (job->state != Job::State::kQueued) return;
  interactive_size_ += is_new;
  interactive_.push(job, false);
}

size_t JobQueue::size(wire::Priority priority) const {
  return priority == wire::Priority::kInteractive ? interactive_size_ : size_ - interactive_size_;
}

void JobQueue::subtract(const Job& job) {
  --size_;
  interactive_size_ -= job.priority == wire::Priority::kInteractive;
  bytes_ -= job.body->size();
}

void JobQueue::dropped(const Job& job) {
  subtract(job);
  if (++left_ < kManyLeft + size_) return;
  left_ = 0;
  interactive_.sweep();
  background_.sweep();
}

JobPtr JobQueue::pop(TimePoint now, bool with_background) {
  JobPtr interactive = interactive_.front(), background = with_background ? background_.front() : nullptr;
  const bool aged = background && background->queued_at + ageing_ <= now;
  const bool overtakes = interactive && aged && !overtook_;
  if (interactive) overtook_ = overtakes;
  Class& from = interactive && !overtakes ? interactive_ : background_;
  JobPtr job = interactive && !overtakes ? interactive : background;
  if (!job) return nullptr;
  from.pop_front();
  subtract(*job);
  return job;
}

}  // namespace kiln::server
