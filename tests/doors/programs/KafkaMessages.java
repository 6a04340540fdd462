import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.util.Map;
import java.util.NavigableMap;
import java.util.Random;
import java.util.StringJoiner;
import java.util.TreeMap;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.Field;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.Struct;
import org.apache.kafka.common.protocol.types.TaggedFields;
import org.apache.kafka.common.protocol.types.Type;
import org.apache.kafka.common.record.internal.MemoryRecords;

/**
 * Kafka's own messages as bytes and as text, to compare another codec with them.
 *
 *     java KafkaMessages make SEED COUNT KEY ...    COUNT messages for each version of each key
 *     java KafkaMessages nothing KEY ...            the message that says nothing, for each version of each key
 *     java KafkaMessages read                       the messages of the standard input
 *
 * A line is "KEY VERSION request|answer HEX": without a header. make prints such lines with the values as JSON behind
 * them; read prints the bytes that Kafka's classes write for what they read, and the values. Bytes are made by
 * the schemas of a version, then read and written by the generated classes.
 */
public final class KafkaMessages {
    private static final int DEPTH_OF_NOTHING = 3; // arrays that far inside have few items

    private final Random random;

    /** FULL: no null, no empty array, all tagged fields. NULL: null where it may be. ZERO: each value is 0 or empty. */
    private enum Manner { FULL, NULL, ZERO, RANDOM }

    private static final Manner[] MANNERS = Manner.values();

    private KafkaMessages(long seed) {
        random = new Random(seed);
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        System.setOut(System.err);
        if (arguments[0].equals("make")) {
            KafkaMessages maker = new KafkaMessages(Long.parseLong(arguments[1]));
            for (int at = 3; at < arguments.length; at++) {
                maker.make(Short.parseShort(arguments[at]), Integer.parseInt(arguments[2]), answers);
            }
        } else if (arguments[0].equals("nothing")) {
            for (int at = 1; at < arguments.length; at++) {
                sayNothing(Short.parseShort(arguments[at]), answers);
            }
        } else {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ", -1);
                boolean isRequest = words[2].equals("request");
                short key = Short.parseShort(words[0]);
                answers.println(read(key, Short.parseShort(words[1]), isRequest, bytes(words[3])));
            }
        }
        answers.flush();
    }

    private void make(short key, int count, PrintStream answers) {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(true); version++) {
            for (int number = 0; number < count; number++) {
                for (boolean isRequest : new boolean[] {true, false}) {
                    Schema schema = schema(type, version, isRequest);
                    Struct values = values(schema, 0, MANNERS[Math.min(number, MANNERS.length - 1)]);
                    ByteBuffer buffer = ByteBuffer.allocate(schema.sizeOf(values));
                    schema.write(buffer, values);
                    String side = isRequest ? "request" : "answer";
                    String read = read(key, version, isRequest, buffer.array());
                    answers.println(key + " " + version + " " + side + " " + read);
                }
            }
        }
    }

    private static void sayNothing(short key, PrintStream answers) {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        for (short version = type.lowestSupportedVersion(); version <= type.highestSupportedVersion(true); version++) {
            for (boolean isRequest : new boolean[] {true, false}) {
                ApiMessage message = isRequest ? type.newRequest() : type.newResponse();
                String side = isRequest ? "request" : "answer";
                answers.println(key + " " + version + " " + side + " " + hex(written(message, version)));
            }
        }
    }

    private static byte[] written(ApiMessage message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    private static Schema schema(ApiMessageType type, short version, boolean isRequest) {
        return (isRequest ? type.requestSchemas() : type.responseSchemas())[version];
    }

    /** What Kafka's classes write for these bytes, in hex, and the values. */
    private static String read(short key, short version, boolean isRequest, byte[] bytes) {
        ApiMessageType type = ApiMessageType.fromApiKey(key);
        ApiMessage message = isRequest ? type.newRequest() : type.newResponse();
        try {
            ByteBuffer buffer = ByteBuffer.wrap(bytes);
            message.read(new ByteBufferAccessor(buffer), version);
            if (buffer.hasRemaining()) {
                return "failed " + buffer.remaining() + " bytes are left";
            }
            byte[] written = written(message, version);
            Struct values = schema(type, version, isRequest).read(ByteBuffer.wrap(written));
            return hex(written) + " " + shown(values);
        } catch (RuntimeException error) {
            return "failed " + error.toString().replace('\n', ' ');
        }
    }

    // --- random values ----------------------------------------------------------------------------------------------

    private Struct values(Schema schema, int depth, Manner manner) {
        Struct struct = new Struct(schema);
        for (BoundField field : schema.fields()) {
            struct.set(field, value(field.def.type, depth, manner));
        }
        return struct;
    }

    private Object value(Type type, int depth, Manner manner) {
        if (type instanceof TaggedFields) {
            NavigableMap<Integer, Object> tagged = new TreeMap<>();
            for (Map.Entry<Integer, Field> entry : ((TaggedFields) type).fields().entrySet()) {
                if (manner == Manner.FULL || manner == Manner.ZERO || random.nextBoolean()) {
                    tagged.put(entry.getKey(), value(entry.getValue().type, depth, manner));
                }
            }
            return tagged;
        }
        if (type.isNullable() && (manner == Manner.NULL || manner == Manner.RANDOM && random.nextInt(3) == 0)) {
            return null;
        }
        if (type.isArray()) {
            int most = depth < DEPTH_OF_NOTHING ? 3 : 2;
            Object[] items = new Object[manner == Manner.RANDOM ? random.nextInt(most) : 1];
            for (int at = 0; at < items.length; at++) {
                items[at] = value(type.arrayElementType().get(), depth + 1, manner);
            }
            return items;
        }
        if (type instanceof Schema) {
            return values((Schema) type, depth, manner);
        }
        String name = type.toString();
        if (manner == Manner.ZERO) {
            return zero(name);
        }
        if (name.equals("BOOLEAN")) {
            return random.nextBoolean();
        } else if (name.equals("INT8")) {
            return (byte) random.nextInt();
        } else if (name.equals("INT16")) {
            return (short) random.nextInt();
        } else if (name.equals("INT32")) {
            return random.nextInt();
        } else if (name.equals("INT64")) {
            return random.nextLong();
        } else if (name.equals("UUID")) {
            return new Uuid(random.nextLong(), random.nextLong());
        } else if (name.endsWith("STRING")) {
            return text();
        } else if (name.endsWith("BYTES")) {
            return ByteBuffer.wrap(some());
        } else if (name.endsWith("RECORDS")) {
            return MemoryRecords.readableRecords(ByteBuffer.wrap(some()));
        }
        throw new IllegalArgumentException("a type without values: " + name + " " + type.getClass());
    }

    private static Object zero(String name) {
        switch (name) {
            case "BOOLEAN":
                return false;
            case "INT8":
                return (byte) 0;
            case "INT16":
                return (short) 0;
            case "INT32":
                return 0;
            case "INT64":
                return 0L;
            case "UUID":
                return Uuid.ZERO_UUID;
            default:
                if (name.endsWith("STRING")) {
                    return "";
                }
                ByteBuffer nothing = ByteBuffer.allocate(0);
                return name.endsWith("BYTES") ? nothing : MemoryRecords.readableRecords(nothing);
        }
    }

    private String text() {
        String[] letters = {"a", "b", "-", "\"", "ä", "日", "\ud83d\ude00", "z"};
        StringBuilder text = new StringBuilder();
        for (int left = random.nextInt(6) == 0 ? 70 : random.nextInt(8); left > 0; left--) {
            text.append(letters[random.nextInt(letters.length)]);
        }
        return text.toString();
    }

    private byte[] some() {
        byte[] bytes = new byte[random.nextInt(6) == 0 ? 130 : random.nextInt(10)];
        random.nextBytes(bytes);
        return bytes;
    }

    // --- text -------------------------------------------------------------------------------------------------------

    /** As JSON: bytes and uuids are hex, tagged fields stand beside the others. */
    private static String shown(Object value) {
        if (value instanceof Struct) {
            Struct struct = (Struct) value;
            StringJoiner parts = new StringJoiner(",", "{", "}");
            for (BoundField field : struct.schema().fields()) {
                if (field.def.type instanceof TaggedFields) {
                    Map<Integer, Field> known = ((TaggedFields) field.def.type).fields();
                    @SuppressWarnings("unchecked")
                    Map<Integer, Object> tagged = (Map<Integer, Object>) struct.get(field);
                    tagged.forEach((tag, one) -> parts.add('"' + known.get(tag).name + "\":" + shown(one)));
                } else {
                    parts.add('"' + field.def.name + "\":" + shown(struct.get(field)));
                }
            }
            return parts.toString();
        } else if (value instanceof Object[]) {
            StringJoiner items = new StringJoiner(",", "[", "]");
            for (Object item : (Object[]) value) {
                items.add(shown(item));
            }
            return items.toString();
        } else if (value instanceof String) {
            return '"' + ((String) value).replace("\"", "\\\"") + '"';
        } else if (value instanceof Uuid) {
            Uuid uuid = (Uuid) value;
            return String.format("\"%016x%016x\"", uuid.getMostSignificantBits(), uuid.getLeastSignificantBits());
        } else if (value instanceof ByteBuffer) {
            ByteBuffer buffer = ((ByteBuffer) value).duplicate();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            return '"' + hex(bytes) + '"';
        } else if (value instanceof MemoryRecords) {
            return shown(((MemoryRecords) value).buffer());
        }
        return String.valueOf(value);
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte one : bytes) {
            text.append(String.format("%02x", one));
        }
        return text.toString();
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return bytes;
    }
}
