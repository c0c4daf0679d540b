#include "model/expert_store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "base/fault.h"

namespace yeoul {
namespace {

constexpr int32_t kExperts = 12;  // of a layer of the embedded checkpoint

class ExpertStoreTest : public testing::Test {
 protected:
  void SetUp() override { checkpoint_ = *Checkpoint::open("models/tiny-random"); }

  std::unique_ptr<ExpertStore> store(const ExpertStoreOptions& options) {
    auto made = ExpertStore::create(checkpoint_, options);
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    return std::move(*made);
  }

  // Against what the checkpoint reads tensor by tensor.
  void expect_equal(const ExpertWeights& weights, int32_t layer, int32_t expert) {
    const Weight* matrices[] = {&weights.w1, &weights.w2, &weights.w3};
    for (int w = 0; w < 3; ++w) {
      for (const char* part : {"weight", "scale"}) {
        const std::string name =
            fmt::format("layers.{}.ffn.experts.{}.w{}.{}", layer, expert, w + 1, part);
        const TensorEntry& entry = **checkpoint_->find(name);
        std::vector<std::byte> expected(entry.num_bytes);
        ASSERT_TRUE(checkpoint_->read(entry, expected));
        const void* found = std::strcmp(part, "scale") == 0
                                ? static_cast<const void*>(matrices[w]->scales)
                                : matrices[w]->data;
        EXPECT_EQ(std::memcmp(found, expected.data(), expected.size()), 0) << name;
      }
      EXPECT_EQ(matrices[w]->format, WeightFormat::kFp4);
    }
  }

  // What begin() was told to want, to its end. -> how many failed.
  size_t run(ExpertStore& experts, int32_t layer, const std::vector<int32_t>& wanted) {
    size_t failed = 0, given = 0;
    for (; const std::optional<ExpertStore::Ready> ready = experts.next(); ++given) {
      const int32_t expert = wanted[ready->place];
      if (ready->weights) {
        expect_equal(*ready->weights, layer, expert);
        continue;
      }
      ++failed;
      const std::string named = fmt::format("layer {} expert {}:", layer, expert);
      EXPECT_NE(ready->weights.error().message.find(named), std::string::npos)
          << ready->weights.error().message;
    }
    EXPECT_EQ(given, wanted.size());
    return failed;
  }

  std::shared_ptr<const Checkpoint> checkpoint_;
};

std::vector<int32_t> all_experts() {
  std::vector<int32_t> experts(kExperts);
  std::iota(experts.begin(), experts.end(), 0);
  return experts;
}

TEST_F(ExpertStoreTest, gives_the_bytes_of_the_checkpoint_through_any_number_of_slots) {
  for (const int32_t slots : {1, 2, 5, 30, 0}) {
    const auto experts = store({.num_slots = slots});
    EXPECT_EQ(experts->holds_all(), slots == 0);
    for (int round = 0; round < 2; ++round) {
      for (int32_t layer = 0; layer < checkpoint_->config().num_hidden_layers; ++layer) {
        experts->begin(layer, all_experts());
        std::set<size_t> places;
        while (const std::optional<ExpertStore::Ready> ready = experts->next()) {
          ASSERT_TRUE(ready->weights) << ready->weights.error().message;
          expect_equal(*ready->weights, layer, static_cast<int32_t>(ready->place));
          places.insert(ready->place);
        }
        EXPECT_EQ(places.size(), size_t{kExperts});
      }
    }
    const ExpertTraffic& traffic = experts->traffic();
    const int64_t wanted = int64_t{2} * kExperts * checkpoint_->config().num_hidden_layers;
    EXPECT_EQ(traffic.hits + traffic.misses, wanted);
    EXPECT_EQ(traffic.misses == wanted / 2, slots == 0);
    EXPECT_GE(traffic.bytes_read, traffic.misses * static_cast<int64_t>(experts->expert_bytes()));
  }
}

TEST_F(ExpertStoreTest, what_is_there_is_given_before_what_has_to_be_read) {
  const auto experts = store({.num_slots = 6});
  for (const int32_t expert : {3, 7}) ASSERT_TRUE(experts->fetch(0, expert));
  const std::vector<int32_t> wanted = {1, 3, 5, 7};
  experts->begin(0, wanted);
  std::vector<size_t> places;
  while (const std::optional<ExpertStore::Ready> ready = experts->next()) {
    places.push_back(ready->place);
  }
  ASSERT_EQ(places.size(), 4u);
  EXPECT_EQ(places[0], 1u);
  EXPECT_EQ(places[1], 3u);
}

// Every way of reading, with the cache smaller than a step.
TEST_F(ExpertStoreTest, a_read_that_fails_fails_its_own_expert_and_is_tried_again) {
  const TensorEntry& lost = **checkpoint_->find("layers.4.ffn.experts.2.w1.weight");
  for (const ReadWay way : {ReadWay::kBest, ReadWay::kThreads}) {
    for (const bool allow_direct : {true, false}) {
      const auto experts = store({.num_slots = 3, .way = way, .allow_direct = allow_direct});
      for (const bool is_broken : {true, false}) {
        std::optional<ScopedFault> fault;
        if (is_broken) {
          fault.emplace(FaultPoint::kReadError,
                        [&](uint64_t offset) { return offset == covering(lost.offset, 1).offset; });
        }
        experts->begin(4, all_experts());
        size_t failed = 0;
        while (const std::optional<ExpertStore::Ready> ready = experts->next()) {
          if (ready->weights) {
            expect_equal(*ready->weights, 4, static_cast<int32_t>(ready->place));
            continue;
          }
          ++failed;
          EXPECT_EQ(ready->weights.error().code, ErrorCode::kUnavailable);
          EXPECT_NE(ready->weights.error().message.find("layer 4 expert"), std::string::npos)
              << ready->weights.error().message;
        }
        // Small experts share the block that was lost; large ones would not.
        EXPECT_GE(failed, is_broken ? 1u : 0u);
        EXPECT_LE(failed, is_broken ? 3u : 0u);
      }
    }
  }
}

TEST_F(ExpertStoreTest, a_failure_ends_a_step_whose_slots_are_all_taken) {
  const auto experts = store({.num_slots = 1});
  const ScopedFault fault(FaultPoint::kReadError, [](uint64_t) { return true; });
  experts->begin(0, all_experts());
  size_t failed = 0;
  while (const std::optional<ExpertStore::Ready> ready = experts->next()) {
    failed += ready->weights ? 0 : 1;
  }
  EXPECT_EQ(failed, size_t{kExperts});
}

TEST_F(ExpertStoreTest, a_right_guess_is_read_before_it_is_wanted_and_only_once) {
  std::vector<int64_t> bytes;
  for (const bool read_ahead : {true, false}) {
    const auto experts = store({.num_slots = 50, .read_ahead = read_ahead});
    experts->begin(0, std::vector<int32_t>{0, 1});
    experts->foresee(1, std::vector<int32_t>{4, 5, 6});
    EXPECT_EQ(run(*experts, 0, {0, 1}), 0u);
    experts->begin(1, std::vector<int32_t>{4, 5, 6});
    EXPECT_EQ(run(*experts, 1, {4, 5, 6}), 0u);
    EXPECT_EQ(experts->traffic().misses, 5);
    EXPECT_EQ(experts->traffic().foreseen, read_ahead ? 3 : 0);
    EXPECT_EQ(experts->traffic().mistaken, 0);
    bytes.push_back(experts->traffic().bytes_read);
  }
  EXPECT_EQ(bytes[0], bytes[1]);
}

TEST_F(ExpertStoreTest, a_read_ahead_that_fails_is_made_again_when_it_is_wanted) {
  for (const bool is_healed : {true, false}) {
    const auto experts = store({.num_slots = 50});
    int num_failed = 0;
    std::optional<ScopedFault> fault(std::in_place, FaultPoint::kReadError,
                                     [&](uint64_t) { return ++num_failed > 0; });
    experts->begin(0, {});
    experts->foresee(1, std::vector<int32_t>{4});
    for (int i = 0; i < 10'000 && num_failed == 0; ++i) {
      EXPECT_FALSE(experts->next());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    ASSERT_GT(num_failed, 0);
    if (is_healed) fault.reset();
    experts->begin(1, std::vector<int32_t>{4});
    EXPECT_EQ(run(*experts, 1, {4}), is_healed ? 0u : 1u);
  }
}

// Guesses that are right, wrong, or of a layer that never comes, with few slots and many.
TEST_F(ExpertStoreTest, no_guess_changes_what_is_given) {
  std::mt19937 random(5);
  const int32_t layers = checkpoint_->config().num_hidden_layers;
  const auto some = [&](size_t count) {
    std::vector<int32_t> experts = all_experts();
    std::shuffle(experts.begin(), experts.end(), random);
    experts.resize(count);
    return experts;
  };
  for (const int32_t slots : {1, 2, 6, 24, 50}) {
    const auto experts =
        store({.num_slots = slots, .way = slots == 6 ? ReadWay::kThreads : ReadWay::kBest});
    std::vector<int32_t> guess;
    for (int step = 0; step < 400; ++step) {
      const auto layer = static_cast<int32_t>(step % layers);
      std::vector<int32_t> wanted = some(1 + random() % 4);
      if (random() % 2 == 0 && !guess.empty()) wanted = guess;
      experts->begin(layer, wanted);
      guess = some(random() % 5);
      if (random() % 4 != 0) {
        experts->foresee(random() % 8 == 0
                             ? static_cast<int32_t>(random() % static_cast<uint32_t>(layers))
                             : (layer + 1) % layers,
                         guess);
      }
      EXPECT_EQ(run(*experts, layer, wanted), 0u);
    }
    EXPECT_GE(experts->traffic().foreseen, slots >= 50 ? 20 : 0) << slots << " slots";
    EXPECT_GE(experts->traffic().mistaken, slots >= 50 ? 20 : 0) << slots << " slots";
  }
}

}  // namespace
}  // namespace yeoul
