// Fast DDS on the wire for evidence_fastdds.py: bytes in on standard input, bytes out on standard output.
//
// Arguments: DOMAIN, then w:TOPIC:TYPE (best effort writer), W:TOPIC:TYPE (reliable writer) or r:TOPIC:TYPE
// (reliable reader); type names hold "::", so the first two colons part the argument. Each message is a byte
// (which argument, from 0), a little-endian uint32 (length) and the bytes as they travel, header included.
//
// Build: g++ -std=c++14 fastdds_relay.cpp -o fastdds_relay -lfastrtps -lfastcdr   (Debian: libfastrtps-dev)
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <fastdds/dds/domain/DomainParticipant.hpp>
#include <fastdds/dds/domain/DomainParticipantFactory.hpp>
#include <fastdds/dds/publisher/DataWriter.hpp>
#include <fastdds/dds/publisher/Publisher.hpp>
#include <fastdds/dds/subscriber/DataReader.hpp>
#include <fastdds/dds/subscriber/DataReaderListener.hpp>
#include <fastdds/dds/subscriber/SampleInfo.hpp>
#include <fastdds/dds/subscriber/Subscriber.hpp>
#include <fastdds/dds/topic/TopicDataType.hpp>
#include <fastdds/dds/topic/TypeSupport.hpp>

using namespace eprosima::fastdds::dds;
using eprosima::fastrtps::rtps::InstanceHandle_t;
using eprosima::fastrtps::rtps::SerializedPayload_t;
typedef std::vector<uint8_t> Bytes;

class Raw : public TopicDataType {  // a type whose samples are their bytes
public:
  explicit Raw(const std::string &name) {
    setName(name.c_str());
    m_typeSize = 1 << 21;
    m_isGetKeyDefined = false;
    auto_fill_type_object(false);
    auto_fill_type_information(false);
  }
  bool serialize(void *data, SerializedPayload_t *payload) override {
    const Bytes &bytes = *static_cast<Bytes *>(data);
    std::memcpy(payload->data, bytes.data(), bytes.size());
    payload->length = static_cast<uint32_t>(bytes.size());
    payload->encapsulation = CDR_LE;
    return true;
  }
  bool deserialize(SerializedPayload_t *payload, void *data) override {
    static_cast<Bytes *>(data)->assign(payload->data, payload->data + payload->length);
    return true;
  }
  std::function<uint32_t()> getSerializedSizeProvider(void *data) override {
    return [data] { return static_cast<uint32_t>(static_cast<Bytes *>(data)->size()); };
  }
  void *createData() override { return new Bytes(); }
  void deleteData(void *data) override { delete static_cast<Bytes *>(data); }
  bool getKey(void *, InstanceHandle_t *, bool) override { return false; }
};

std::mutex out;

class Tells : public DataReaderListener {
public:
  explicit Tells(uint8_t index) : index_(index) {}
  void on_data_available(DataReader *reader) override {
    Bytes bytes;
    SampleInfo info;
    while (reader->take_next_sample(&bytes, &info) == ReturnCode_t::RETCODE_OK) {
      if (!info.valid_data) continue;
      std::lock_guard<std::mutex> guard(out);
      uint32_t length = static_cast<uint32_t>(bytes.size());
      std::fwrite(&index_, 1, 1, stdout);
      std::fwrite(&length, 4, 1, stdout);
      std::fwrite(bytes.data(), 1, length, stdout);
      std::fflush(stdout);
    }
  }

private:
  uint8_t index_;
};

int main(int argc, char **argv) {
  auto *participant =
      DomainParticipantFactory::get_instance()->create_participant(std::atoi(argv[1]), PARTICIPANT_QOS_DEFAULT);
  auto *publisher = participant->create_publisher(PUBLISHER_QOS_DEFAULT);
  auto *subscriber = participant->create_subscriber(SUBSCRIBER_QOS_DEFAULT);
  std::vector<DataWriter *> writers(argc, nullptr);
  std::vector<std::unique_ptr<Tells>> listeners;
  for (int k = 2; k < argc; ++k) {
    std::string told(argv[k]);
    const size_t colon = told.find(':', 2);
    const std::string name = told.substr(2, colon - 2), kind = told.substr(colon + 1);
    TypeSupport type(new Raw(kind));
    type.register_type(participant);
    auto *topic = participant->create_topic(name, kind, TOPIC_QOS_DEFAULT);
    if (told[0] == 'r') {
      DataReaderQos quality = DATAREADER_QOS_DEFAULT;
      quality.reliability().kind = RELIABLE_RELIABILITY_QOS;
      quality.history().depth = 20;
      quality.endpoint().history_memory_policy =
          eprosima::fastrtps::rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
      listeners.emplace_back(new Tells(static_cast<uint8_t>(k - 2)));
      subscriber->create_datareader(topic, quality, listeners.back().get());
    } else {
      DataWriterQos quality = DATAWRITER_QOS_DEFAULT;
      quality.reliability().kind = told[0] == 'W' ? RELIABLE_RELIABILITY_QOS : BEST_EFFORT_RELIABILITY_QOS;
      quality.history().depth = 5;
      quality.endpoint().history_memory_policy =
          eprosima::fastrtps::rtps::PREALLOCATED_WITH_REALLOC_MEMORY_MODE;
      quality.publish_mode().kind = ASYNCHRONOUS_PUBLISH_MODE;
      writers[k - 2] = publisher->create_datawriter(topic, quality);
    }
  }
  uint8_t index;
  uint32_t length;
  while (std::fread(&index, 1, 1, stdin) == 1 && std::fread(&length, 4, 1, stdin) == 1) {
    Bytes bytes(length);
    if (std::fread(bytes.data(), 1, length, stdin) != length) break;
    writers[index]->write(&bytes);
  }
  std::_Exit(0);  // the pipe is closed: whoever drives this has gone
}
