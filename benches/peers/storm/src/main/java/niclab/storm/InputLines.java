package niclab.storm;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.IOException;
import java.math.BigInteger;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

/** Tuples in a file: a JSON object a line, with stream, key, sequence, time and payload. */
final class InputLines {
    /** Tuples of a file at most: they are read before the run and kept. */
    private static final int TUPLES_MAX = 20_000_000;

    private static final ObjectMapper JSON =
        new ObjectMapper().enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS);

    private InputLines() {
    }

    static List<InputTuple> read(String file) {
        List<InputTuple> tuples = new ArrayList<>();
        int number = 0;
        try (BufferedReader reader = Files.newBufferedReader(Path.of(file))) {
            for (String line = reader.readLine(); line != null; line = reader.readLine()) {
                number++;
                if (tuples.size() == TUPLES_MAX) {
                    throw new UsageException("at most " + TUPLES_MAX + " tuples are allowed");
                }
                tuples.add(tuple(JSON.readTree(line)));
            }
        } catch (JsonProcessingException error) {
            throw new UsageException(file + ":" + number + ": " + error.getOriginalMessage()
                + ": one JSON object a line is needed");
        } catch (IOException error) {
            throw new UsageException("--input " + file + ": cannot be read: " + error);
        } catch (UsageException error) {
            throw new UsageException(file + ":" + number + ": " + error.getMessage());
        }
        if (tuples.isEmpty()) {
            throw new UsageException("--input " + file + ": it has no tuple: write one a line");
        }
        return tuples;
    }

    private static InputTuple tuple(JsonNode line) {
        return new InputTuple(
            (int) number(line, "stream", BigInteger.valueOf(InputTuple.STREAM_MAX)),
            number(line, "key", BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE)),
            number(line, "sequence", BigInteger.ONE.shiftLeft(64).subtract(BigInteger.ONE)),
            number(line, "time", BigInteger.valueOf(Long.MAX_VALUE)),
            payload(line));
    }

    private static long number(JsonNode line, String field, BigInteger most) {
        JsonNode value = line.path(field);
        BigInteger number = value.isIntegralNumber() ? value.bigIntegerValue() : null;
        if (number == null || number.signum() < 0 || number.compareTo(most) > 0) {
            throw new UsageException(field + ": a whole number from 0 to " + most + " is needed");
        }
        return number.longValue();
    }

    /** Bytes in base64, or a number of zeros. */
    private static byte[] payload(JsonNode line) {
        JsonNode value = line.path("payload");
        if (!value.isTextual()) {
            return new byte[(int) number(line, "payload",
                BigInteger.valueOf(InputTuple.PAYLOAD_LEN_MAX))];
        }
        byte[] payload;
        try {
            payload = Base64.getDecoder().decode(value.textValue());
        } catch (IllegalArgumentException error) {
            throw new UsageException("payload: base64 or a number of bytes is needed");
        }
        if (payload.length > InputTuple.PAYLOAD_LEN_MAX) {
            throw new UsageException("payload: " + payload.length + " bytes: at most "
                + InputTuple.PAYLOAD_LEN_MAX + " are allowed");
        }
        return payload;
    }
}
